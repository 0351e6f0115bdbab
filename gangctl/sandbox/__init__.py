"""A Kubernetes API server in memory, and simulated controllers beside it.

For the demo without a cluster, for experiments (``gangctl sandbox``) and for tests that
need a fault at a chosen request. It is a simulation: what it does is compared with real
API servers by ``tests/conformance``.

It validates what gangctl writes: metadata, Workloads, PodGroups, Leases, Events, webhook
registrations, changes of JobSets, Jobs and pods, and whatever the schema of a definition
says. Everything else is filled in and taken as it comes: pods, counts and policies of Jobs,
ConfigMaps, Secrets, Services, Nodes, RBAC, PriorityClasses, the schemas themselves, and what
JobSet's webhook refuses of a new JobSet. It answers in JSON, and takes JSON and, of built-in kinds, protobuf.
"""
