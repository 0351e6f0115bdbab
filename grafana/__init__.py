"""Grafana dashboards of gangctl: the code that makes them, and what it made."""
