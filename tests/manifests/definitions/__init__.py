"""CustomResourceDefinitions of gangctl's kinds, from its models: what is written under ``manifests/``."""
