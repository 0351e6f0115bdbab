"""
A program that saves its state at SIGTERM: child.py NAME CODE [SIGNALS].

It makes NAME.ready, with its process number, when it can be told, NAME.told-1 when it was, and NAME.saved when NAME.go
lets it go on.
"""

import os
import signal
import sys
import time
from pathlib import Path

name, code, *rest = sys.argv[1:]
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
Path(f"{name}.number").write_text(str(os.getpid()), encoding="ascii")
Path(f"{name}.number").rename(f"{name}.ready")
for count in range(1, int(rest[0] if rest else 1) + 1):
    signal.sigwait({signal.SIGTERM})
    Path(f"{name}.told-{count}").touch()
while not Path(f"{name}.go").exists():
    time.sleep(0.005)
Path(f"{name}.saved").touch()
sys.exit(int(code))
