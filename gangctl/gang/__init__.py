"""The functional core: from a JobSet's gang configuration to Workload and PodGroup objects.

Everything here is pure, total and deterministic: the same input gives the same
bytes, nothing does I/O, and clocks and identifiers are arguments. The webhooks,
the controller and the CLI call the same functions, so that an offline preview
cannot disagree with the cluster. One JobSet passes through

``config`` (what was asked for) → ``resolve`` (what it becomes: a stamp per
ReplicatedJob) → ``plan`` (templates, groups, Job references, and the objects
of one API version) → ``diff`` (changes against what exists).
"""
