"""Kueue (``kueue.x-k8s.io/v1beta2``): its objects, their states, and conflicts with gangs."""
