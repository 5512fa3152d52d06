"""The page Align."""
