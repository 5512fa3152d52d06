"""Who computes the chunks of a pass: this process, several of this machine, or a cluster. All run the same function."""
