"""The page Attention, step by step."""
