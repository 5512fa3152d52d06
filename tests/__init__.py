"""The tests: they mirror the tree of the project; `browser/` drives the real page."""
