"""Changes of attention in a running model: what to change, as a value; who has asked for it; and the arithmetic."""
