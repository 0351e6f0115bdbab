"""Composition root: everything that one gangctl process is made of, wired together and nothing else."""
