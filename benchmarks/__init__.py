"""Benchmarks: ratios against something run beside it, on the real thing; never tests with a stopwatch."""
