"""Hostile input: what anybody may send, write or answer, and the three things that must hold whatever it is.

One clear answer (a 4xx, an exit code 2 or 3, an error of a declared type), in bounded time, with bounded memory;
and whoever else is being served notices nothing. See README.md.
"""
