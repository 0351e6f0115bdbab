"""The rules of manifests/monitoring: their files, when they fire, and their runbooks."""
