"""Layers and models: attention, blocks, and the architectures that are built of them."""
