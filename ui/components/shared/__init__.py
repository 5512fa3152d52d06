"""What components share: one binary blob in, small events out."""
