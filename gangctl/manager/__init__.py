"""Composition root: makes the parts of one gangctl process and connects them."""
