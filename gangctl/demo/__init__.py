"""The demo: training jobs that strand each other on too few CPUs, and run one after the other with gangctl.

Two acts of one scenario, on the sandbox (no cluster needed) or on a cluster of the user's.
"""
