"""The page Sequences."""
