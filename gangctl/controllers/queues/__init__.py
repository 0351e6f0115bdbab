"""Kueue in a running gangctl: what it watches, what webhooks query, and the events of waiting JobSets."""
