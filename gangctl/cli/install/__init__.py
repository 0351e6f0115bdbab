"""``gangctl install`` prints what makes gangctl run in a cluster, and what to delete to uninstall it.

``manifests.json`` is the kustomize tree under ``manifests/`` in one file: the objects of ``base`` and of each
component, and the patches of the components. ``rendering.py`` puts them together as kustomize does (pure),
``removal.py`` says what to delete (pure), ``cluster.py`` asks a cluster what of it makes sense there.
"""
