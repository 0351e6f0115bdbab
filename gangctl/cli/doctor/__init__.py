"""``gangctl doctor`` checks whether a cluster can run gangs.

``checks/`` has the checks, each beside the facts that it evaluates; ``cluster.py`` reads a fact once, ``check.py`` has
outcomes, ``report.py`` runs and prints; ``canary.py`` creates two small JobSets and watches them.
"""
