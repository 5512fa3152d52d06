"""Looking into a checkpoint, and holding what it computes against what its original computed."""
