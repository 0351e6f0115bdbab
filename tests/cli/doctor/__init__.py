"""``gangctl doctor``: its checks, purely, and the command against servers."""
