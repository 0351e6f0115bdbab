"""The only package that talks to an API server: configuration, transport, verbs on raw JSON, watch."""
