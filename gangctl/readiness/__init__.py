"""The functional core of readiness: how far a gang has come, and why it is no further."""
