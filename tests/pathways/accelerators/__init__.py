"""Names of TPUs."""
