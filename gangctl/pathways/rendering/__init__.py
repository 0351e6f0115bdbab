"""A PathwaysJob as a JobSet, each field with where it came from."""
