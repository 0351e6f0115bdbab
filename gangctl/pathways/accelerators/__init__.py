"""TPUs by all their names: machine types, topologies, slices."""
