"""A PathwaysJob in the flags of a command line, and the container that they describe."""
