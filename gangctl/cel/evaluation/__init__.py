"""What a checked expression means: closures of Python over JSON as it is, under a meter.

The grammar is cel-python's; types, functions, costs and evaluation follow Kubernetes.
"""
