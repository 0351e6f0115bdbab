"""The user's pod as flags describe it: one container, whose shell hands SIGTERM on.

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

Limits: until the script has set its trap, a millisecond after the start, the kernel drops SIGTERM for process 1, and a
child that is being forked in the very moment of the signal may miss it.

It is built as an object, never as text. Rendering adds the connection to the proxy, as for any PathwaysJob.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from gangctl.api.quantity import parse_quantity
from gangctl.errors import ErrorKind, shown
from gangctl.pathways.checks.template import is_image
from gangctl.pathways.flags.table import CONTAINER, JOB_FLAGS, PULL_POLICIES, SHELLS, Flags, kebab
from gangctl.pathways.flags.texts import FlagTexts
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.problems import InvalidReason, listed, near
from gangctl.pathways.rendering.containers import TMP_MOUNT, TMP_VOLUME
from gangctl.pathways.result import Origin, OriginKind, Profile
from gangctl.pathways.words import POD

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


DEFAULT_NAME: Final = "jax-tpu"
REQUESTS: Final[Mapping[str, str]] = {"cpu": "2", "memory": "8Gi"}
LIMITS: Final[Mapping[str, str]] = {"cpu": "24", "memory": "100G"}
"""Of the user's container. Without requests the limits would apply, and the head would fit on few nodes."""
DEBUG_LOGS: Final[Mapping[str, str]] = {
    "TPU_STDERR_LOG_LEVEL": "0",
    "TPU_MIN_LOG_LEVEL": "0",
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TPU_VMODULE": "real_program_continuator=1",
}
"""Variables that XPK exports for ``--enable-debug-logs``."""

OF_XPK: Final = Origin(OriginKind.RULE, "xpk", "as XPK has it where nothing else is asked for")
_SIZE: Final = Origin(OriginKind.RULE, "gangctl", "the size of a client where nothing else is asked for")


@dataclass(frozen=True, slots=True)
class UserPod:
    """A pod template, and the origins of its fields, by path in the PathwaysJob; None if headless."""

    template: Mapping[str, Any] | None = None
    sources: Mapping[str, Origin] = field(default_factory=dict)


def flag_origin(flag: str) -> Origin:
    """The origin of a flag's value."""
    return Origin(OriginKind.FLAG, flag)


def says(value: object) -> bool:
    """Whether a flag was given, by the value of its field; a switch that is off counts as not given."""
    return value is not None and value is not False and value not in ("", ())


def origin_of(name: str, value: object) -> Origin:
    """The origin of a field of :class:`Flags`, or of its default."""
    return Origin(OriginKind.FLAG if says(value) else OriginKind.DEFAULT, kebab(name))


def build_pod(flags: Flags, profile: Profile, options: PathwaysOptions, texts: FlagTexts) -> UserPod:
    """The pod of the flags; errors are added to ``texts``."""
    if flags.headless:
        _refuse_without_container(flags, texts)
        return UserPod()
    _check_words(flags, texts)
    sources: dict[str, Origin] = {}
    container: dict[str, Any] = {
        "name": flags.docker_name or DEFAULT_NAME,
        "image": flags.docker_image,
        **({"imagePullPolicy": flags.docker_image_pull_policy} if flags.docker_image_pull_policy else {}),
        "command": _command(flags, texts, sources),
        "env": _environment(flags, texts, sources),
        "resources": _resources(flags, texts, sources),
        **_host_settings(flags, profile, options, sources),
    }
    container = {key: value for key, value in container.items() if value not in ([], {})}
    volumes = {"volumes": [TMP_VOLUME]} if "volumeMounts" in container else {}
    return UserPod({"spec": {**_rights(flags, texts), "containers": [container], **volumes}}, sources)


def _refuse_without_container(flags: Flags, texts: FlagTexts) -> None:
    for name, row in JOB_FLAGS.items():
        if row.of_container and says(getattr(flags, name)):
            detail = "must not be given with --headless, where the head has no container of your own"
            texts.refuse(InvalidReason.MALFORMED, kebab(name), detail, ErrorKind.FORBIDDEN)


def _check_words(flags: Flags, texts: FlagTexts) -> None:
    if not flags.command.strip():
        detail = "is required, unless --headless leaves the head without a container of your own"
        texts.refuse(InvalidReason.MISSING_CONTAINERS, "--command", detail, ErrorKind.REQUIRED)
    if not flags.docker_image:
        detail = "is required: the image that the command runs in, unless --headless"
        texts.refuse(InvalidReason.INVALID_IMAGE, "--docker-image", detail, ErrorKind.REQUIRED)
    elif not is_image(flags.docker_image):
        detail = f"must be an image such as registry.example/team/image:tag, got {shown(flags.docker_image)}"
        texts.refuse(InvalidReason.INVALID_IMAGE, "--docker-image", detail)
    for flag, value, allowed in (
        ("--wrapper", flags.wrapper, SHELLS),
        ("--docker-image-pull-policy", flags.docker_image_pull_policy or PULL_POLICIES[0], PULL_POLICIES),
    ):
        if value not in allowed:
            detail = f"unsupported value {shown(value)}{near(value, allowed)}, allowed: {listed(allowed)}"
            texts.refuse(InvalidReason.MALFORMED, flag, detail, ErrorKind.NOT_SUPPORTED)


def _rights(flags: Flags, texts: FlagTexts) -> dict[str, Any]:
    """The pod's ServiceAccount, and its image pull secrets."""
    rights: dict[str, Any] = {}
    if flags.service_account:
        texts.name("--service-account", flags.service_account)
        rights["serviceAccountName"] = flags.service_account
    for name in flags.image_pull_secret:
        texts.name("--image-pull-secret", name)
    if flags.image_pull_secret:
        rights["imagePullSecrets"] = [{"name": name} for name in flags.image_pull_secret]
    return rights


def _command(flags: Flags, texts: FlagTexts, sources: dict[str, Origin]) -> list[str]:
    if flags.wrapper not in set(Shell):
        return list(texts.words("--command", flags.command, InvalidReason.MALFORMED))
    command = wrapped(flags.command, Shell(flags.wrapper))
    kind = OriginKind.DEFAULT if flags.wrapper == Shell.BASH else OriginKind.FLAG
    wrapper = Origin(kind, "--wrapper", "hands SIGTERM on to the command")
    sources |= {f"{CONTAINER}.command[{index}]": wrapper for index in range(len(command) - 1)}
    return command


def _environment(flags: Flags, texts: FlagTexts, sources: dict[str, Origin]) -> list[dict[str, str]]:
    """Each variable once: those of ``--env``, of the file, of the logs, the first that has a name of these."""
    found: dict[str, tuple[str, Origin]] = {}
    for variables, flag in (
        (DEBUG_LOGS if flags.enable_debug_logs else {}, "--enable-debug-logs"),
        (texts.environment_file("--env-file", flags.env_file, flags.local_environment), "--env-file"),
        (texts.variables("--env", flags.env), "--env"),
    ):
        found |= {name: (value, flag_origin(flag)) for name, value in variables.items()}
    sources |= {f"{CONTAINER}.env[{index}]": origin for index, (_, origin) in enumerate(found.values())}
    return [{"name": name, "value": value} for name, (value, _) in found.items()]


def _resources(flags: Flags, texts: FlagTexts, sources: dict[str, Origin]) -> dict[str, dict[str, str]]:
    asked = texts.amounts("--docker-resources", flags.docker_resources)
    requests, limits = {**REQUESTS, **asked["requests"]}, {**LIMITS, **asked["limits"]}
    for name in REQUESTS:
        if not requests[name] or not limits[name] or parse_quantity(requests[name]) <= parse_quantity(limits[name]):
            continue
        # Only one of the two was given, or both are and the check reports it: the default is dropped.
        if name not in asked["requests"]:
            requests[name] = limits[name]
        elif name not in asked["limits"]:
            limits[name] = requests[name]
    for kind, usual, amounts in (("requests", REQUESTS, requests), ("limits", LIMITS, limits)):
        kept = [name for name in usual if name not in asked[kind] and amounts[name] == usual[name]]
        sources |= {f"{CONTAINER}.resources.{kind}.{name}": _SIZE for name in kept}
    lists = {"requests": requests, "limits": limits}
    present = {kind: {name: text for name, text in amounts.items() if text} for kind, amounts in lists.items()}
    return {kind: amounts for kind, amounts in present.items() if amounts}


def _host_settings(
    flags: Flags, profile: Profile, options: PathwaysOptions, sources: dict[str, Origin]
) -> dict[str, Any]:
    """Host access that XPK gives to the user's container."""
    settings: dict[str, Any] = {}
    of_profile = profile is Profile.XPK
    if of_profile if flags.privileged is None else flags.privileged:
        settings["securityContext"] = {"privileged": True}
        sources[f"{CONTAINER}.securityContext"] = OF_XPK if flags.privileged is None else flag_origin("--privileged")
    shares = of_profile and options.shared_tmp is not False
    if shares if flags.mount_tmp is None else flags.mount_tmp:
        settings["volumeMounts"] = [TMP_MOUNT]
        origin = OF_XPK if flags.mount_tmp is None else flag_origin("--mount-tmp")
        sources |= {f"{CONTAINER}.volumeMounts": origin, f"{POD}.volumes": origin}
    return settings
