"""A PathwaysJob as a JobSet, each field with its origin."""
