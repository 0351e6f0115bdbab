"""Kueue as a running gangctl sees it: what is watched of it, what webhooks ask, and what is told of who waits."""
