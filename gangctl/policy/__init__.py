"""The functional core of policies: what a GangPolicy means, and what it says of one request.

Pure like :mod:`gangctl.gang`: no I/O, no clock, no randomness. Time is an argument, and
what an expression may spend is a :class:`~gangctl.cel.meter.StepMeter` of the caller.
"""
