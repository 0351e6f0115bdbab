"""What the leader follows and computes for readiness, and its observers."""
