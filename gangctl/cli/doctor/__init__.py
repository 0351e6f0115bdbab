"""``gangctl doctor`` says whether a cluster is able to run gangs.

``subjects.py`` names what is looked at, ``gathering/`` reads it into ``facts.py``, ``checks/`` evaluates the facts
(pure), ``report.py`` prints the results; ``canary.py`` makes two tiny JobSets and watches them.
"""
