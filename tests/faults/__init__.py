"""A fault at every single request of every lifecycle scenario, against the sandbox."""
