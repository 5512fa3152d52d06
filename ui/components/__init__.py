"""Canvas components: each is a folder with its Python and its scripts."""
