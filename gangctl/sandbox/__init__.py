"""A Kubernetes API server in memory, and simulated controllers beside it.

For the demo without a cluster, for experiments (``gangctl sandbox``) and for tests that
need a fault at a chosen request. It is a simulation: what it does is compared with real
API servers by ``tests/conformance``.

It validates what gangctl writes: metadata, Workloads, PodGroups, Leases, Events, changes of
JobSets, Jobs and pods, what gangctl's settings decide of webhook registrations, and whatever
the schema of a definition says. Everything else is filled in and taken as it comes: pods,
counts, selectors and policies of Jobs, probes and volumes, ConfigMaps, Secrets, Services,
Nodes, RBAC, PriorityClasses, the schemas themselves, options of requests, and what JobSet's
webhook refuses of a new JobSet. It answers in JSON, and takes JSON and, of built-in kinds,
protobuf. Left out: the deletion of collections, ``pods/binding`` over HTTP, the second call
of a webhook, and fields of gates that a release leaves off.
"""
