"""Search through the states of small clusters with gangctl's real controller in them: ``python -m tests.search``.

A world (:mod:`tests.search.worlds`) is one JobSet on one Kubernetes minor, with what may happen to it. The explorer
walks through all interleavings of what may happen: JobSet's controller, the Job controller, the scheduler, kubelets,
the garbage collector, a user, faults, and gangctl with caches that lag behind. All but gangctl are small models; what
gangctl decides is computed by its own controller, caches and reporter. The invariants
(:mod:`tests.search.invariants`) are checked in every state, and in the end that follows from it if nothing goes wrong
any more.

The simulation (:mod:`tests.search.simulation`) goes through larger worlds along one path each: all of gangctl over the
sandbox in virtual time, with users, pods and faults of a seed.

Smaller models are of one gang, and of what is said of it: one that loses nodes (:mod:`tests.search.evictions`, all
states), and random walks (:mod:`tests.search.walks`) of one that waits for nodes and volumes
(:mod:`tests.search.waiting`), and of one whose controllers may stop (:mod:`tests.search.stages`).
"""
