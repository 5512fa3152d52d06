"""Looking into a checkpoint without running it."""
