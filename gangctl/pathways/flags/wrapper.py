"""The first process of the user's container: it forwards SIGTERM to the command and waits for its end.

A shell that is process 1 of a container does not forward SIGTERM, and ends only when the kubelet kills it; its
children receive no signal and save nothing. :func:`wrapped` adds a small script. It gets the command as an argument,
so that the shell expands it only once, and starts it in a separate process group.

* Each SIGTERM, or SIGINT, is sent to the process group, as SIGTERM. Processes that left the group do not receive it.
* After one, the script waits until the group is empty: not only for the first process, which may be a shell that ends
  before its children do. The kubelet's grace period is the limit, also for children that ignore the signal.
* The exit code is the command's. Only 0 after a SIGTERM becomes 143: a Job must not count as done because its node
  was taken away.
* A command of several steps ends with the step that is running, whose exit code is the command's.

The signal also reaches the filters of a pipeline: what writes to ``| tee`` may meet a closed pipe.

Limits: until the script has set its trap, a millisecond after the start, the kernel drops SIGTERM
for process 1, and a child that is being forked in the very moment of the signal may miss it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

ARGUMENT_ZERO: Final = "gangctl-run"
"""Name of the script in the list of processes and in the shell's messages."""


class Shell(StrEnum):
    """Requirements on the image."""

    BASH = "bash"
    """``/bin/bash``, and ``sleep``."""
    SH = "sh"
    """``/bin/sh``, which may be dash, busybox or bash, with ``setsid`` and ``sleep``."""


# kill takes the group as "-PID" without "--" before it, which busybox does not know. A trap interrupts wait, so that
# its result counts only if no signal came meanwhile; 127 then says that the result before was the command's. -1 is what
# bash always returns for a process that ended at the moment of a signal: its code is lost.
_SCRIPT: Final = """\
# Runs $1 in a process group of its own: SIGTERM goes to all of it, and the end waits for all of it.
signals= told=
forward() {{
  signals=$signals.
  told=yes
  [ -n "$!" ] || exit 143
  while starting; do :; done
  kill -TERM "-$!" 2>/dev/null
}}
trap forward TERM INT
{start}
code=127
while
  seen=$signals
  former=$code
  wait "$!"
  code=$?
  [ "$code" != 127 ] || code=$former
  [ "$signals" != "$seen" ]
do :; done
[ -n "$told" ] || exit "$code"
while kill -0 "-$!" 2>/dev/null; do sleep 0.1; done
case $code in 0 | -1) code=143 ;; esac
exit "$code"
"""

# In bash the group exists before the new process has put off this shell's own trap, which would swallow the signal;
# its name changes when it has.
_START_BASH: Final = """\
starting() {
  local name=
  { IFS= read -r -d '' name < "/proc/$!/cmdline"; } 2>/dev/null
  [ "$name" = /bin/bash ]
}
set -m
exec -a bash /bin/bash -c "trap exit TERM; $1" &
set +m"""

# Without job control it takes setsid to have a group, which exists once the new process is no longer this shell.
_START_SH: Final = """\
starting() { ! kill -0 "-$!" 2>/dev/null && kill -0 "$!" 2>/dev/null; }
setsid /bin/sh -c "trap exit TERM; $1" &"""

_EXPANDED: Final = re.compile(r"\$+(?=\()|\${2,}")
"""Where the kubelet would read a reference to a variable, ``$(NAME)``, or an escaped dollar sign, ``$$``."""

_ARGUMENTS: Final = {
    Shell.BASH: ("/bin/bash", "-c", _SCRIPT.format(start=_START_BASH)),
    Shell.SH: ("/bin/sh", "-c", _SCRIPT.format(start=_START_SH)),
}


def wrapped(command: str, shell: Shell = Shell.BASH) -> list[str]:
    """The container's ``command`` that runs a shell command in the wrapper; the result is the caller's own.

    The command reaches the shell as it is written: dollar signs that mean something to the kubelet are escaped for it.
    """
    return [*_ARGUMENTS[shell], ARGUMENT_ZERO, _EXPANDED.sub(lambda dollars: dollars[0] * 2, command)]
