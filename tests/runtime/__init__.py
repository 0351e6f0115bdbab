"""Tests of :mod:`gangctl.runtime`."""
