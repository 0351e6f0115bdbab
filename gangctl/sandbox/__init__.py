"""A Kubernetes API server in memory, and simulated controllers beside it.

For the demo without a cluster, for experiments (``gangctl sandbox``) and for tests, which
extend its front by faults at chosen requests. It is a simulation: what it does is compared
with real API servers by ``tests/conformance``.

It validates what gangctl writes: metadata, Workloads, PodGroups, Leases, Events, changes of
JobSets, Jobs and pods, what gangctl's settings decide of webhook registrations, the expressions
of MutatingAdmissionPolicies, the specs of Jobs, options of writes and deletions, and whatever
the schema of a definition says.
ResourceQuotas limit numbers of objects and what pods request. Everything else is filled in
and taken as it comes: pods, probes and volumes, ConfigMaps, Secrets, Services, Nodes, RBAC,
PriorityClasses, the schemas themselves, and what JobSet's webhook refuses of a new JobSet, but for restarts of
single Jobs without their feature gate. It answers in JSON, and takes JSON and, of built-in
kinds, protobuf. Left out: the deletion of collections, ``pods/binding`` over HTTP, quotas
with scopes, params and types in policies, ValidatingAdmissionPolicies,
and fields of gates that a release leaves off.
"""
