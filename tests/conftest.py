"""Fixtures that every test may use."""

pytest_plugins = ("tests.controlplane.fixtures", "tests.live.fixtures")
