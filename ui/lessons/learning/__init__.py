"""The lesson "Learning": a small Transformer that is trained while the reader looks on."""
