"""A Kubernetes API server in memory, and simulated controllers beside it.

For the demo without a cluster, for experiments (``gangctl sandbox``) and for tests that
need a fault at a chosen request. It is a simulation: what it does is compared with real
API servers by ``tests/conformance``, and every difference is a bug here.
"""
