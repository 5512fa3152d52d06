"""Modules in many styles, each with its attention computed by brute force: what `recording(module)` has to see."""
