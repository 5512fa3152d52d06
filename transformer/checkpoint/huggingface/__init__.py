"""Models of the `transformers` library: read from a local folder, watched through its attention interface."""
