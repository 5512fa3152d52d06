"""What is known of sequences without a model: alphabets, FASTA, tasks, folding, tracks."""
