"""Read the facts from a cluster with the user's own rights. Only dry runs are sent."""
