"""A whole model as one or two towers that can be walked, lit step by step and opened."""
