"""TPUs by whatever name: machine types, topologies, slices."""
