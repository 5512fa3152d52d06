"""Two models' alignments over one target, marked and played together."""
