"""gangctl: gang scheduling for JobSets on Kubernetes.

The tour is ARCHITECTURE.md; the pure functions that everything
else is built on are in :mod:`gangctl.gang`.
"""

__version__ = "0.1.0"
