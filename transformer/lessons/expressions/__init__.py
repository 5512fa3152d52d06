"""A small language of matrix expressions: numbers that know how they were made.

A `Board` holds matrices in the order of their making. Each has an `Operation` (a product, a sum, a softmax, ...) that
tells, for any cell, which cells of other matrices it came from, which it goes to, and its equation with its numbers.
The values themselves are made by the library's layers, so an equation can be held against what the layer gave.
"""
