"""Which head is looked at, and what is known of it."""
