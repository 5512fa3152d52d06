"""What a model's attention claims, held against what is true."""
