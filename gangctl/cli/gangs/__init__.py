"""Gangs as people ask for them: ``gangctl get``, ``describe``, ``explain``, ``wait`` and ``top``."""
