"""What flows through a model while it runs: states, what each sub-layer adds, and what would be written early."""
