"""Environments with unique names, in which references keep their values.

Kubernetes expands ``$(NAME)`` from variables declared before, and server-side apply rejects duplicate names.
gangctl's variables come first, so that a user's values may refer to them. Duplicates are merged here: the last
declaration counts, as in the kubelet, except for the variables that connect a client to its proxy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.job import ComponentChanges, PathwaysJob
from gangctl.pathways.result import From, option, rule
from gangctl.pathways.words import COORDINATOR, PROXY_PORT

HEAD_VARIABLE: Final = "PATHWAYS_HEAD"
HEAD_ADDRESS: Final = f"$({HEAD_VARIABLE})"
ABSL_FLAGS: Final = "ABSL_FLAGS"

INJECTED: Final = (HEAD_VARIABLE, "JAX_PLATFORMS", "JAX_BACKEND_TARGET")
"""Of a PathwaysJob's main container: with other values it would not connect to its proxy."""

_TIMEOUT_FLAG: Final = "--pathways_pipe_unreachable_timeout"
_TIMEOUT_OPTION: Final = "unreachableTimeoutSeconds"
_TIMEOUT_TEXT: Final = f"{_TIMEOUT_OPTION} has no effect, {ABSL_FLAGS} comes from another object; write {{}} there"
_REFERENCE: Final = re.compile(r"\$(?:\$|\((?P<name>[^)]*)\))")
"""``$$`` is an escaped dollar sign: ``$$(NAME)`` refers to nothing."""


@dataclass(frozen=True, slots=True)
class ContainerEnv:
    """The ``env`` of a container, in order; it may be empty."""

    variables: tuple[From, ...]
    notices: tuple[Notice, ...] = ()


def constant(name: str, value: str, why: str) -> From:
    """A variable with a value that a rule sets."""
    return rule({"name": name, "value": value}, why)


def from_label(name: str, label: str, why: str) -> From:
    """A variable that is a label of its pod."""
    return _from_metadata(name, f"metadata.labels['{label}']", why)


def from_annotation(name: str, annotation: str, why: str) -> From:
    """A variable that is an annotation of its pod."""
    return _from_metadata(name, f"metadata.annotations['{annotation}']", why)


def head_address() -> From:
    """The variable that is the address of the head: JobSet writes it on every pod."""
    return from_label(HEAD_VARIABLE, COORDINATOR, "address of the head")


def main_environment(job: PathwaysJob, container: Mapping[str, Any], path: str) -> ContainerEnv:
    """The variables of the user's main container, at ``path`` of the PathwaysJob."""
    ours = (
        head_address(),
        constant("JAX_PLATFORMS", "proxy", "JAX runs through the proxy"),
        constant("XCLOUD_ENVIRONMENT", "GCP", "Pathways runs on Google Cloud"),
        constant("JAX_BACKEND_TARGET", f"grpc://{HEAD_ADDRESS}:{PROXY_PORT}", "where the proxy listens"),
    )
    theirs = _declared(job, container.get("env") or (), f"{path}.env")
    return _composed(job, container["name"], ours, theirs, kept=() if job.user_env_wins else INJECTED)


def user_environment(job: PathwaysJob, container: Mapping[str, Any], path: str) -> ContainerEnv:
    """The variables of another user container, at ``path`` of the PathwaysJob: each name once."""
    theirs = _declared(job, container.get("env") or (), f"{path}.env")
    return ContainerEnv(merged((), theirs), _twice(container["name"], theirs))


def component_environment(
    job: PathwaysJob, container: str, ours: Sequence[From], component: ComponentChanges | None
) -> ContainerEnv:
    """The variables of a Pathways container: its defaults, and custom ones, which replace them or follow."""
    theirs = () if component is None else _declared(job, component.env, f"{component.path}.customEnv")
    return _composed(job, container, ours, theirs)


def merged(ours: Sequence[From], theirs: Sequence[From], kept: Collection[str] = ()) -> tuple[From, ...]:
    """Both, each name once at its first position: the last declaration, but ours for ``kept`` names.

    Variables that a value refers to, and that were declared before it, stay before it.
    """
    fixed = {_name(our) for our in ours if _name(our) in kept}
    declared = list(ours)
    survivors = {_name(variable): index for index, variable in enumerate(declared)}
    for their in theirs:
        name = _name(their)
        if name not in fixed:
            earlier = declared[survivors[name]] if name in survivors else None
            survivors[name] = len(declared)
            declared.append(_continued(their, earlier))
    placed: dict[int, From] = {}
    for index in survivors.values():
        for needed in sorted(_needed(index, declared, survivors, placed)):
            placed[needed] = declared[needed]
    return tuple(placed.values())


def references(value: str) -> tuple[str, ...]:
    """Names that Kubernetes would look up to expand a value."""
    return tuple(match["name"] for match in _REFERENCE.finditer(value) if match["name"] is not None)


def _needed(
    index: int, declared: Sequence[From], survivors: Mapping[str, int], placed: Collection[int]
) -> Collection[int]:
    """A declaration and those before it that it refers to, directly or through others, without what is placed."""
    needed: set[int] = set()
    left = [index]
    while left:
        at = left.pop()
        if at in placed or at in needed:
            continue
        needed.add(at)
        targets = (survivors.get(name, at) for name in references(_value(declared[at])))
        left.extend(target for target in targets if target < at)
    return needed


def _continued(entry: From, earlier: From | None) -> From:
    """A declaration that refers to the one that it replaces: ``A=$(A),b``."""
    if earlier is None or "value" not in earlier.value or _name(entry) not in references(_value(entry)):
        return entry
    name, value = _name(entry), _value(earlier)
    text = _REFERENCE.sub(lambda match: value if match["name"] == name else match[0], _value(entry))
    return From({**entry.value, "value": text}, entry.origin)


def _composed(
    job: PathwaysJob, container: str, ours: Sequence[From], theirs: Sequence[From], kept: Collection[str] = ()
) -> ContainerEnv:
    notices = (*_replaced(container, ours, theirs, kept), *_twice(container, theirs, kept))
    seconds = job.options.unreachable_timeout_seconds
    if seconds is None:
        return ContainerEnv(merged(ours, theirs, kept), notices)
    flag = f"{_TIMEOUT_FLAG}={seconds}s"
    if ABSL_FLAGS not in {_name(their) for their in theirs}:
        timeout = option({"name": ABSL_FLAGS, "value": flag}, _TIMEOUT_OPTION)
        return ContainerEnv(merged((*ours, timeout), theirs, kept), notices)
    variables = merged(ours, theirs, kept)
    if any(_name(variable) == ABSL_FLAGS and "valueFrom" in variable.value for variable in variables):
        notices = (*notices, Notice(Reason.NO_EFFECT, f"container {container}: {_TIMEOUT_TEXT.format(flag)}"))
    return ContainerEnv(tuple(_appended(variable, flag) for variable in variables), notices)


def _appended(entry: From, flag: str) -> From:
    """ABSL_FLAGS with one more flag, unless it has that flag; other variables unchanged."""
    if _name(entry) != ABSL_FLAGS or "valueFrom" in entry.value or _TIMEOUT_FLAG in _value(entry):
        return entry
    value = option(f"{_value(entry)} {flag}".strip(), _TIMEOUT_OPTION, f"appended to {entry.origin.place}")
    return From({**entry.value, "value": value}, entry.origin)


def _replaced(
    container: str, ours: Sequence[From], theirs: Sequence[From], kept: Collection[str]
) -> tuple[Notice, ...]:
    values = {_name(our): our.value for our in ours if _name(our) in kept}
    lost = [_name(their) for their in theirs if _name(their) in values and their.value != values[_name(their)]]
    if not lost:
        return ()
    message = f"container {container}: {_listed(lost)} connects it to its proxy, what the PathwaysJob sets is not used"
    return (Notice(Reason.ENV_OVERRIDDEN, message),)


def _twice(container: str, theirs: Sequence[From], kept: Collection[str] = ()) -> tuple[Notice, ...]:
    counts = Counter(_name(their) for their in theirs)
    names = [name for name, count in counts.items() if count > 1 and name not in kept]
    if not names:
        return ()
    return (
        Notice(Reason.ENV_OVERRIDDEN, f"container {container}: {_listed(names)} is set twice, the last one counts"),
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _declared(job: PathwaysJob, entries: Sequence[Mapping[str, Any]], path: str) -> tuple[From, ...]:
    return tuple(From(entry, job.origin(f"{path}[{index}]")) for index, entry in enumerate(entries))


def _from_metadata(name: str, path: str, why: str) -> From:
    return rule({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}, why)


def _name(entry: From) -> str:
    return str(entry.value["name"])


def _value(entry: From) -> str:
    return str(entry.value.get("value") or "")
