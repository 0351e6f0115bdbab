"""Admission webhooks: the imperative shell around :mod:`gangctl.gang.admission`."""
