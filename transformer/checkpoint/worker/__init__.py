"""Reading untrusted files beside the server: processes with limits, and what they may answer."""
