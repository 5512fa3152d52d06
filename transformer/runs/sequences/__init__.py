"""Sequences through a classifier: one, many, windows of a long one; what its letters did; what held-out rows say."""
