"""Figures of labelled arrays: Plotly charts, files, and the canvas views of a record."""
