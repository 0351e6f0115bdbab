"""The opt-in mode in which Kueue holds a Workload's start back until gangctl has said that its gang is there."""
