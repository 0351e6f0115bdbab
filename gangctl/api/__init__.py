"""Wire types: the JSON form of Kubernetes objects, independent of what gangctl does with them. No I/O."""
