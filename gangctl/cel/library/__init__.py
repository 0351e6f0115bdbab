"""The functions that Kubernetes adds to CEL, on plain Python values."""
