"""Small tasks that are trained beside the server, step by step."""
