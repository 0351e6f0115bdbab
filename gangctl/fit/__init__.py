"""Whether a JobSet can be admitted and scheduled, ever and now, and what prevents it: quotas and node shapes."""
