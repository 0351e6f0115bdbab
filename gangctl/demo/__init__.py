"""The demo: training jobs that strand each other on too few CPUs, and then, with gangctl, take turns.

Two acts of one scenario, on the sandbox (no cluster needed) or on a cluster of the user's.
"""
