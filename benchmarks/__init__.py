"""Benchmarks: ratios against something run beside it, on the real thing; never tests with a stopwatch.

``python -m benchmarks all`` runs them and writes ``RESULTS.md``; README.md says how.
"""
