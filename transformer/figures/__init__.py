"""Record -> Plotly figure. Figures see NumPy arrays and labels only; each says what its axes and colours mean."""
