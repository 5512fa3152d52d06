"""Files that others trained: which layout they follow, and what has to be asked."""
