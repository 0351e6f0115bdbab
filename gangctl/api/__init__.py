"""Wire types: how Kubernetes objects look in JSON, and nothing about what gangctl does with them. No I/O."""
