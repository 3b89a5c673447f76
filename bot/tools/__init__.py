"""The built-in tools, nothing else."""
