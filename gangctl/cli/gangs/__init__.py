"""Commands about gangs: ``gangctl get``, ``describe``, ``why``, ``wait`` and ``top``."""
