"""The page Translate."""
