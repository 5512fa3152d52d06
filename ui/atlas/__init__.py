"""The page Head atlas: what every head of a checkpoint does over a corpus."""
