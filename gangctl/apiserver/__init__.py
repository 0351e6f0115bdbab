"""What an API server with JobSet does to an object: decode, prune, default, validate; and the Jobs of a JobSet."""
