"""CEL as Kubernetes speaks it: checked once by gangctl, compiled to closures of Python."""
