"""Kueue (``kueue.x-k8s.io/v1beta2``) as gangctl reads it: its objects, their states, and what may stand beside it."""
