"""Mutation testing of the functional core: would the pure tests notice if one thing in the code were another?

``python -m tests.mutation`` runs it, in half an hour of CPU; no test does.
"""
