"""Weeks of a cluster in virtual time, as gangctl's own collectors export them: ordinary ones, and one per incident."""
