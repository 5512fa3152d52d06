"""How the shipped checkpoints are made: `python -m tools.train KIND`."""
