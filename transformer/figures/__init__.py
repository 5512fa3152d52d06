"""Pictures as Plotly figures.

They know NumPy arrays and labels alone; each says what its axes and colours mean, in the language of the context that
draws it.
"""
