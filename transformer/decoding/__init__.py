"""From distributions to a text: greedy and beam search, and what each step wrote."""
