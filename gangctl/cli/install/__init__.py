"""``gangctl install`` prints the objects of an installation, and those to delete to uninstall it.

``manifests.json`` is the kustomize tree under ``manifests/`` in one file: the objects of ``base`` and of each
component, and the patches of the components. ``rendering.py`` puts them together as kustomize does, and lists
what to delete (pure), ``cluster.py`` checks what a cluster supports.
"""
