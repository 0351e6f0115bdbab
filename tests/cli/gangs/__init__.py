"""Tests of the commands about gangs."""
