"""CEL as Kubernetes speaks it: checked once by gangctl, evaluated by cel-python or cel-expr-python."""
