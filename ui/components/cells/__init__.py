"""Cells of a heatmap by keyboard."""
