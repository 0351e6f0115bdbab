"""One module per component: its command line and its configuration files, and nothing else."""
