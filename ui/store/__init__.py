"""Checkpoints and runs that the dashboard remembers, and for whom."""
