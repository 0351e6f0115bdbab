"""The rules of manifests/monitoring: what they say, when they fire, and what is told to whom they wake."""
