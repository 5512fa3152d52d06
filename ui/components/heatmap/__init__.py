"""One head, large, drawn in the browser."""
