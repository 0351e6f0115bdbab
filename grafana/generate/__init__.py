"""The dashboards of gangctl as code: ``python -m grafana.generate`` writes ``grafana/dashboards``.

One module a dashboard, named after what it shows. ``promql.py`` writes queries, ``panels.py`` what draws them,
``board.py`` variables, rows and links.
"""
