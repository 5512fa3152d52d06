"""The page Inside a layer."""
