"""Commands about gangs: ``gangctl get``, ``describe``, ``explain``, ``wait`` and ``top``."""
