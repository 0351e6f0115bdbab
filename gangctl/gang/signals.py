"""Whether SIGTERM reaches the program of a container, so that it can write a checkpoint before the pod ends.

The kubelet sends it to process 1 alone. A shell that waits for its command passes nothing on, and is not ended by it
either: the program is killed when the grace period is over. In a pipeline under a shell that does pass it on, what
reads the output ends at once, and the program fails when it prints.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gangctl.api.jobset import pod_path
from gangctl.api.objects import object_at, objects_at
from gangctl.gang.reasons import Notice, Reason

WRAPPED: Final = "gangctl-run"
"""Name, among the processes and in its messages, of the shell that gangctl puts around a command and passes it on."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "busybox", "zsh", "ksh"})
_SCRIPT_OPTION: Final = re.compile(r"-[a-zA-Z]*c")
# Looked for only where a run of $ begins: elsewhere in it, a long run would take time that grows with its square.
_SUBSTITUTION: Final = re.compile(r"(?<!\$)\$+\([^()]*\)|`[^`]*`|\\\n")
"""What is between commands of the script and none of them: substitutions, and the ends of continued lines."""
_PUNCTUATION: Final = "();<>|&\n"
_LONGEST: Final = 128 * 1024
"""Characters of a script: Linux starts no program with a longer argument, and shlex's time to read one is quadratic."""


def unheard(container: Mapping[str, Any]) -> str:
    """Why the program of a container does not get SIGTERM, and what to write; empty if it does, or is not known."""
    texts = [*_texts(container, "command"), *_texts(container, "args")]
    if WRAPPED in texts[:-1]:
        if not _commands(texts[-1])[0]:
            return ""
        return (
            "a pipeline: what reads the output ends on SIGTERM, so that the program fails when it prints, and writes "
            "no checkpoint; write | (trap '' TERM; exec tee FILE)"
        )
    options = [index for index, text in enumerate(texts) if _SCRIPT_OPTION.fullmatch(text)]
    if not texts or texts[0].rpartition("/")[2] not in _SHELLS or not options or options[0] + 1 >= len(texts):
        return ""
    pipeline, commands = _commands(texts[options[0] + 1])
    # bash replaces itself by a single command; dash starts a child for it, and waits.
    alone = len(commands) == 1 and texts[0].endswith("bash")
    if "trap" in (command[0] for command in commands) or (not pipeline and (alone or not commands)):
        return ""
    if not pipeline and commands[-1][0] == "exec":
        return ""
    what = "a pipeline" if pipeline else "a shell without exec"
    how = "write exec PROGRAM > >(tee FILE) 2>&1, in bash" if pipeline else "write exec before its last command"
    return f"{what}: the shell does not pass SIGTERM on, so that the program writes no checkpoint; {how}"


def _texts(container: Mapping[str, Any], key: str) -> list[str]:
    written = container.get(key)
    return [text for text in written if isinstance(text, str)] if isinstance(written, list) else []


def _commands(script: str) -> tuple[bool, list[list[str]]]:
    """Whether a script has a pipeline, and its commands in their words; nothing for one that cannot be read."""
    if len(script) >= _LONGEST:
        return False, []
    lexer = shlex.shlex(_SUBSTITUTION.sub(" x ", script).strip(), posix=True, punctuation_chars=_PUNCTUATION)
    # Without the line feed, which ends a command: it is among the punctuation.
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    pipeline, commands = False, [list[str]()]
    try:
        for token in lexer:
            if not set(token) <= set(_PUNCTUATION):
                commands[-1].append(token)
            elif token.strip("\n()") in {"|", "|&"}:
                pipeline = True
            elif set(token) & set(";&|\n") and not set(token) & set("<>"):
                commands.append([])
    # shlex raises it for a quote that is not closed.
    except ValueError:
        return False, []
    return pipeline, [command for command in commands if command]


def notices(jobset: Mapping[str, Any]) -> Iterator[Notice]:
    """A notice for each container of a raw JobSet whose program does not get SIGTERM."""
    for index, entry in enumerate(objects_at(object_at(jobset, "spec"), "replicatedJobs")):
        path = pod_path(index)
        pod = object_at(object_at(object_at(object_at(entry, "template"), "spec"), "template"), "spec")
        for number, container in enumerate(objects_at(pod, "containers")):
            if why := unheard(container):
                yield Notice(Reason.SIGNAL_LOST, f"{path}.containers[{number}].command is {why}.")
