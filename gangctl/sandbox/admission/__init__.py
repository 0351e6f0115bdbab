"""Admission of writes by policies and webhooks."""
