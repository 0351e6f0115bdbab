"""The opt-in mode in which Kueue starts a Workload only after gangctl has reported that its gang exists."""
