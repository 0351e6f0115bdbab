"""Controllers, the imperative shell: read a snapshot, ask the core, write what is missing, say what was done."""
