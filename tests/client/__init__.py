"""Tests of :mod:`gangctl.client`."""
