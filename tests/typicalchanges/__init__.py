"""Fifteen typical changes of CONTRIBUTING.md, made by a program as their row says.

``python -m tests.typicalchanges [NAME...]`` makes each of them in a clone of this tree, runs `make generate` and
`make test-for`, and prints the failures: each of them is in a place that the row does not name. ``--wide`` runs the
tests of the first tier that need no control plane instead: what fails there only is missing in `tests/changes.py`.
"""
