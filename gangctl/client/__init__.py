"""The only package with requests to an API server: configuration, transport, verbs on raw JSON, watch."""
