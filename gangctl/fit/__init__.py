"""Whether a JobSet can ever be admitted and scheduled, can be now, and what is in the way: quotas and node shapes."""
