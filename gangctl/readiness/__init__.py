"""The functional core of readiness: the progress of a gang, and the causes that delay it."""
