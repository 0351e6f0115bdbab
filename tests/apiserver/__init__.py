"""What an API server with JobSet does to a new object."""
