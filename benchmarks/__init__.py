"""Measurements that anyone can repeat: `python -m benchmarks` runs them all and writes results.json and results.md."""
