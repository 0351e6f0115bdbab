"""Controllers, the imperative shell: read a snapshot, call the pure functions, write what is missing, report it."""
