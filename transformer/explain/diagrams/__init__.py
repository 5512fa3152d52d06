"""What a model is made of, as a diagram: from its config and its modules, without a run."""
