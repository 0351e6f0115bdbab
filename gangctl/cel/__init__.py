"""CEL as Kubernetes defines it: checked once by gangctl, compiled to closures of Python."""
