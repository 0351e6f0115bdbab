"""The pictures in docs/dashboards.md: what a real Prometheus answers to the dashboards' queries, drawn.

    make pictures

There is no Grafana in it. ``story.py`` makes up six hours of a cluster, ``series.py`` the metrics of it, ``loaded.py``
loads them into Prometheus and asks, ``drawing.py`` draws the answers.
"""
