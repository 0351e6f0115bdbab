"""The user's pod as flags describe it: one container, whose shell forwards SIGTERM; and values of flags.

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
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from gangctl.api.labelselector import KEY_RULE, VALUE_RULE
from gangctl.api.names import is_dns_subdomain, is_label_value, is_qualified_name
from gangctl.api.objects import INT32_MAX
from gangctl.api.quantity import parse_quantity
from gangctl.errors import ErrorKind, shown
from gangctl.gang.signals import WRAPPED
from gangctl.pathways import result
from gangctl.pathways.flags.table import CONTAINER, JOB_FLAGS, PULL_POLICIES, SHELLS, Flags, kebab
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.podchecks import is_image
from gangctl.pathways.problems import MOST_PROBLEMS, InvalidReason, Problem, listed, near, problem
from gangctl.pathways.rendering.containers import TMP_MOUNT, TMP_VOLUME
from gangctl.pathways.words import POD

RESOURCE_LISTS: Final = ("requests", "limits")

_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
"""Characters that neither arguments nor JSON can contain: bytes that were not UTF-8."""


_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class FlagTexts:
    """Reads the texts of flags; ``problems`` collects their errors, at the names of the flags."""

    problems: list[Problem] = field(default_factory=list)

    def refuse(self, reason: InvalidReason, flag: str, detail: str, kind: ErrorKind = ErrorKind.INVALID) -> None:
        """A problem of a flag; ``detail`` says what is allowed."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem(reason, flag, detail, kind))

    def text(self, flag: str, text: str) -> None:
        """A text that a container can get as an argument."""
        if _NO_TEXT.search(text):
            detail = f"must be text in UTF-8 without characters of code 0, got {shown(text)}"
            self.refuse(InvalidReason.MALFORMED, flag, detail)

    def pairs(self, flag: str, texts: Iterable[str], reason: InvalidReason = InvalidReason.MALFORMED) -> dict[str, str]:
        """``KEY=VALUE`` each, each key once; the value may hold more signs of equality."""
        pairs: dict[str, str] = {}
        for text in texts:
            key, sign, value = text.partition("=")
            if not sign or not key:
                self.refuse(reason, flag, f"must be KEY=VALUE, got {shown(text)}")
            elif key in pairs:
                self.refuse(reason, flag, f"{shown(key)} is given a second time", ErrorKind.DUPLICATE)
            else:
                pairs[key] = value
        return pairs

    def labels(self, flag: str, texts: Iterable[str]) -> dict[str, str]:
        """Pairs that can be labels of an object, or of a node; others are left out."""
        pairs = self.annotations(flag, texts)
        return {key: value for key, value in pairs.items() if self._is_label(flag, key, value)}

    def annotations(self, flag: str, texts: Iterable[str]) -> dict[str, str]:
        """Pairs that can be annotations; others are left out."""
        return {key: value for key, value in self.pairs(flag, texts).items() if self._is_key(flag, key)}

    def variables(self, flag: str, texts: Iterable[str]) -> dict[str, str]:
        """Environment variables, ``NAME=VALUE`` each; invalid names are left out."""
        pairs = self.pairs(flag, texts, InvalidReason.INVALID_ENVIRONMENT)
        return {name: value for name, value in pairs.items() if self._is_variable(flag, name)}

    def environment_file(self, flag: str, text: str, local: Mapping[str, str]) -> dict[str, str]:
        """A file of variables: ``NAME=VALUE``, or ``NAME`` for the ``local`` one; empty lines and ``#`` lines are none.

        A later line wins over an earlier one, as it does for XPK.
        """
        variables: dict[str, str] = {}
        # Not splitlines(), for which a value with a form feed, say, would be two lines.
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
            name, sign, value = line.partition("=")
            name = name.strip()
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if not self._is_variable(flag, name, f" in line {number}"):
                continue
            if sign:
                variables[name] = value
            elif name in local:
                self.text(flag, local[name])
                variables[name] = local[name]
            else:
                detail = f"line {number}: {shown(name)} has no value here: set it in your shell, or write NAME=VALUE"
                self.refuse(InvalidReason.INVALID_ENVIRONMENT, flag, detail)
        return variables

    def words(self, flag: str, text: str, reason: InvalidReason = InvalidReason.INVALID_COMPONENT) -> tuple[str, ...]:
        """The words of a text, split like in a shell."""
        try:
            return tuple(shlex.split(text))
        except ValueError as wrong:
            detail = f"cannot be parted into words as a shell does it: {wrong}; got {shown(text)}"
            self.refuse(reason, flag, detail)
            return ()

    def amounts(self, flag: str, texts: Iterable[str]) -> dict[str, dict[str, str]]:
        """Quantities, ``limits.memory=50G`` each, by list and resource; an empty one means none."""
        amounts: dict[str, dict[str, str]] = {name: {} for name in RESOURCE_LISTS}
        for path, amount in self.pairs(flag, texts, InvalidReason.INVALID_RESOURCES).items():
            kind, _, resource = path.partition(".")
            if kind not in RESOURCE_LISTS or not is_qualified_name(resource):
                meant = near(kind, RESOURCE_LISTS)
                detail = f"must be requests.NAME=QUANTITY or limits.NAME=QUANTITY, got {shown(path)}{meant}"
                self.refuse(InvalidReason.INVALID_RESOURCES, flag, detail)
            elif self._is_quantity(flag, path, amount):
                amounts[kind][resource] = amount
        return amounts

    def name(self, flag: str, text: str) -> None:
        """A name that another object may have."""
        if not is_dns_subdomain(text):
            detail = f"must be the name of an object: lower case letters, digits, - and ., got {shown(text)}"
            self.refuse(InvalidReason.INVALID_NAME, flag, detail)

    def number(self, reason: InvalidReason, flag: str, value: int | None) -> int | None:
        """A number in the range of the API's fields; None if it is invalid, or not given."""
        if value is not None and not 0 <= value <= INT32_MAX:
            self.refuse(reason, flag, f"must be at least 0 and at most {INT32_MAX}, got {shown(value)}")
            return None
        return value

    def _is_key(self, flag: str, key: str) -> bool:
        if is_qualified_name(key):
            return True
        self.refuse(InvalidReason.MALFORMED, flag, f"{shown(key)} is no key: {KEY_RULE}")
        return False

    def _is_label(self, flag: str, key: str, value: str) -> bool:
        if is_label_value(value):
            return True
        detail = f"the value of {shown(key)} must be {VALUE_RULE}; got {shown(value)}"
        self.refuse(InvalidReason.MALFORMED, flag, detail)
        return False

    def _is_variable(self, flag: str, name: str, where: str = "") -> bool:
        if _VARIABLE.fullmatch(name):
            return True
        detail = f"{shown(name)}{where} is no name of a variable: letters, digits and _, first no digit"
        self.refuse(InvalidReason.INVALID_ENVIRONMENT, flag, detail)
        return False

    def _is_quantity(self, flag: str, path: str, amount: str) -> bool:
        if not amount:
            return True
        try:
            sound = parse_quantity(amount) >= 0
        except ValueError:
            sound = False
        if not sound:
            detail = f"{path} must be a quantity such as 24, 500m or 100G, got {shown(amount)}"
            self.refuse(InvalidReason.INVALID_RESOURCES, flag, detail)
        return sound


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
    return [*_ARGUMENTS[shell], WRAPPED, _EXPANDED.sub(lambda dollars: dollars[0] * 2, command)]


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

OF_XPK: Final = result.Origin(result.OriginKind.RULE, "xpk", "as XPK has it where nothing else is asked for")
_SIZE: Final = result.Origin(result.OriginKind.RULE, "gangctl", "the size of a client where nothing else is asked for")


@dataclass(frozen=True, slots=True)
class UserPod:
    """A pod template, and the origins of its fields, by path in the PathwaysJob; None if headless."""

    template: Mapping[str, Any] | None = None
    sources: Mapping[str, result.Origin] = field(default_factory=dict)


def flag_origin(flag: str) -> result.Origin:
    """The origin of a flag's value."""
    return result.Origin(result.OriginKind.FLAG, flag)


def says(value: object) -> bool:
    """Whether a flag was given, by the value of its field; a switch that is off counts as not given."""
    return value is not None and value is not False and value not in ("", ())


def origin_of(name: str, value: object) -> result.Origin:
    """The origin of a field of :class:`Flags`, or of its default."""
    return result.Origin(result.OriginKind.FLAG if says(value) else result.OriginKind.DEFAULT, kebab(name))


def build_pod(flags: Flags, profile: result.Profile, options: PathwaysOptions, texts: FlagTexts) -> UserPod:
    """The pod of the flags; errors are added to ``texts``."""
    if flags.headless:
        for name, row in JOB_FLAGS.items():
            if row.of_container and says(getattr(flags, name)):
                detail = "must not be given with --headless, where the head has no container of your own"
                texts.refuse(InvalidReason.MALFORMED, kebab(name), detail, ErrorKind.FORBIDDEN)
        return UserPod()
    _check_words(flags, texts)
    sources: dict[str, result.Origin] = {}
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


def _command(flags: Flags, texts: FlagTexts, sources: dict[str, result.Origin]) -> list[str]:
    if flags.wrapper not in set(Shell):
        return list(texts.words("--command", flags.command, InvalidReason.MALFORMED))
    command = wrapped(flags.command, Shell(flags.wrapper))
    kind = result.OriginKind.DEFAULT if flags.wrapper == Shell.BASH else result.OriginKind.FLAG
    wrapper = result.Origin(kind, "--wrapper", "forwards SIGTERM to the command")
    sources |= {f"{CONTAINER}.command[{index}]": wrapper for index in range(len(command) - 1)}
    return command


def _environment(flags: Flags, texts: FlagTexts, sources: dict[str, result.Origin]) -> list[dict[str, str]]:
    """Each variable once: those of ``--env``, of the file, of the logs, the first that has a name of these."""
    environment: dict[str, tuple[str, result.Origin]] = {}
    for variables, flag in (
        (DEBUG_LOGS if flags.enable_debug_logs else {}, "--enable-debug-logs"),
        (texts.environment_file("--env-file", flags.env_file, flags.local_environment), "--env-file"),
        (texts.variables("--env", flags.env), "--env"),
    ):
        environment |= {name: (value, flag_origin(flag)) for name, value in variables.items()}
    sources |= {f"{CONTAINER}.env[{index}]": origin for index, (_, origin) in enumerate(environment.values())}
    return [{"name": name, "value": value} for name, (value, _) in environment.items()]


def _resources(flags: Flags, texts: FlagTexts, sources: dict[str, result.Origin]) -> dict[str, dict[str, str]]:
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
    flags: Flags, profile: result.Profile, options: PathwaysOptions, sources: dict[str, result.Origin]
) -> dict[str, Any]:
    """Host access that XPK gives to the user's container."""
    settings: dict[str, Any] = {}
    of_profile = profile is result.Profile.XPK
    if of_profile if flags.privileged is None else flags.privileged:
        settings["securityContext"] = {"privileged": True}
        sources[f"{CONTAINER}.securityContext"] = OF_XPK if flags.privileged is None else flag_origin("--privileged")
    shares = of_profile and options.shared_tmp is not False
    if shares if flags.mount_tmp is None else flags.mount_tmp:
        settings["volumeMounts"] = [TMP_MOUNT]
        origin = OF_XPK if flags.mount_tmp is None else flag_origin("--mount-tmp")
        sources |= {f"{CONTAINER}.volumeMounts": origin, f"{POD}.volumes": origin}
    return settings
