"""A day of a real cluster: a trace of jobs, replayed as JobSets on a real control plane with simulated kubelets."""
