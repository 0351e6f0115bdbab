"""Evaluates checked expressions: closures of Python over plain JSON, under a meter.

The grammar is cel-python's; types, functions, costs and evaluation follow Kubernetes.
"""
