"""The layers: one idea a file, none of which knows that it may be watched."""
