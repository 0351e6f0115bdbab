"""Fixtures that every test may use."""

import signal

# A shell starts what runs in the background with SIGINT ignored, and every process that a test starts would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ("tests.controlplane.fixtures", "tests.live.fixtures")
