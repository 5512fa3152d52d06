"""The weights of one row as bars that can be dragged."""
