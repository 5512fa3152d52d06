"""The page Checkpoints."""
