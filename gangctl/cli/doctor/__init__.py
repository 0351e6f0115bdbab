"""``gangctl doctor`` checks whether a cluster can run gangs.

``subjects.py`` names the checks, ``gathering/`` reads their facts into ``facts.py``, ``checks/`` evaluates the facts
(pure), ``report.py`` prints the results; ``canary.py`` creates two small JobSets and watches them.
"""
