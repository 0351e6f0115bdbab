"""
Replaces itself with the given command, which the kernel then kills as soon as the starting thread is gone.

A test run that is itself killed cannot clean up; without this, every such run would leave etcd and an API server
behind. It is a program of its own because code between fork and exec is not safe in a process with threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the line above took effect.
        if os.getppid() != parent:
            raise SystemExit("the starting process is gone")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
