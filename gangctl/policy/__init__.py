"""The functional core of policies: the meaning of a GangPolicy, and its outcome for one request.

Pure like :mod:`gangctl.gang`: no I/O, no clock, no randomness. Time is an argument, and the caller's
:class:`~gangctl.cel.meter.StepMeter` limits the cost of expressions.
"""
