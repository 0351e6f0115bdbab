"""Reading the facts from a cluster with the asking person's own rights. Nothing is written but dry runs."""
