"""What the leader follows and computes of readiness, and whom it tells."""
