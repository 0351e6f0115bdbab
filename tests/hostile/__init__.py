"""Hostile input from clients, users and servers, and the three properties that must hold for any of it.

One clear answer (a 4xx, an exit code 2 or 3, an error of a declared type), in bounded time, with bounded memory;
and whoever else is being served notices nothing. See README.md.
"""
