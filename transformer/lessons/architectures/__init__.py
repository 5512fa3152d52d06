"""Recurrent against self-attention: what a pair, a step and a token cost."""
