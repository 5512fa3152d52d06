"""How the sequence classifiers were made."""
