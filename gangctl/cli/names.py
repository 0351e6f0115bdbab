"""Names of objects as arguments: ``NAME``, and ``TYPE/NAME`` or ``TYPE.GROUP/NAME`` as in kubectl."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gangctl.client.resources import JOBSETS, PODS
from gangctl.errors import GangctlError
from gangctl.kueue.names import GROUP as KUEUE
from gangctl.pathways.words import GROUP as PATHWAYS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ObjectName:
    """An object that the user named."""

    kind: str
    name: str
    typed: str = field(default="", compare=False)
    """The kind that the user wrote, where another has its name."""
    has_type: bool = field(default=False, compare=False)
    """Whether the user wrote a type before it."""


@dataclass(frozen=True, slots=True)
class _Type:
    """A kind, and what users call it."""

    group: str
    plural: str
    short: tuple[str, ...] = ()
    names: str = ""
    """The kind whose name it shares: a Gang has the name of its JobSet."""


_TYPES: Final[Mapping[str, _Type]] = {
    "JobSet": _Type(JOBSETS.group, JOBSETS.plural),
    "Gang": _Type("gangctl.dev", "gangs", names="JobSet"),
    "PathwaysJob": _Type(PATHWAYS, "pathwaysjobs", names="JobSet"),
    # Trainer creates one JobSet for it, with the same name.
    "TrainJob": _Type("trainer.kubeflow.org", "trainjobs", names="JobSet"),
    "Pod": _Type(PODS.group, PODS.plural, ("po",)),
    "Node": _Type("", "nodes", ("no",)),
    "PodGroup": _Type("scheduling.k8s.io", "podgroups"),
    # The short names are those of Kueue's definitions.
    "LocalQueue": _Type(KUEUE, "localqueues", ("lq", "queue", "queues")),
    "ClusterQueue": _Type(KUEUE, "clusterqueues", ("cq",)),
}
_VERSION: Final = r"v\d+(?:(?:alpha|beta)\d+)?"
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")

_MAKERS: Final[Mapping[str, str]] = {
    "PathwaysJob": "gangctl pathways status",
    "TrainJob": "kubectl describe trainjob",
}
"""Kinds whose controllers make a JobSet, and the command that says why there is none."""

GANGS: Final = ("JobSet", "Gang", "PathwaysJob", "TrainJob")
GANGS_AND_PODS: Final = (*GANGS, "Pod")


def qualified(kind: str) -> str:
    """A kind in the plural with its group, as the API server's messages have it."""
    names = _TYPES[kind]
    return f"{names.plural}.{names.group}" if names.group else names.plural


def hint_of_maker(kind: str, name: str, namespace: str | None) -> str:
    """What to do where the JobSet that an object of a kind becomes does not exist; empty for kinds that make none."""
    if kind not in _MAKERS:
        return ""
    command = f"{_MAKERS[kind]} {name}{f' -n {namespace}' if namespace else ''}"
    return f"this is the JobSet that {kind} {name} becomes; {command} says whether there is one, and what holds it up"


class ObjectNotFoundError(GangctlError):
    """An object that the user named does not exist: exit code 1, as kubectl has it."""

    code = "NotFound"

    def __init__(
        self, kind: str, name: str, namespace: str | None = None, *, others: Iterable[str] = (), hint: str = ""
    ) -> None:
        """``others`` are names that exist; ``hint`` is for a name that is like none of them."""
        close = get_close_matches(name, others, n=3)
        place = f' in namespace "{namespace}"' if namespace else ""
        did_you_mean = f"did you mean {' or '.join(close)}?" if close else hint
        super().__init__(f'{qualified(kind)} "{name}" not found{place}', hint=did_you_mean)
        self.name = name


def _of_kind(kind: str, name: str, *, has_type: bool) -> ObjectName:
    same = _TYPES[kind].names
    return ObjectName(same or kind, name, typed=kind if same else "", has_type=has_type)


class NameArgument(click.ParamType[ObjectName]):
    """The name of an object of one of some kinds; without a type of the first."""

    name = "name"

    def __init__(self, *kinds: str, complete: Callable[[click.Context, str], list[str]] | None = None) -> None:
        """``complete`` has the names of the first kind that begin with a text."""
        self.kinds = kinds
        self._complete = complete

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ObjectName:
        """The kind and the name; a usage error says what is allowed."""
        if isinstance(value, ObjectName):
            return value
        type_name, slash, name = str(value).rpartition("/")
        kind = self._kind(type_name) if slash else self.kinds[0]
        if kind is None:
            self.fail(f'"{value}" has another type: write NAME, or one of {self._allowed()}', param, ctx)
        if not _NAME.fullmatch(name):
            self.fail(f'"{value}" is not the name of an object: letters, digits, "-" and "."', param, ctx)
        return _of_kind(kind, name, has_type=bool(slash))

    def after_type(self, names: Sequence[ObjectName]) -> tuple[ObjectName, ...]:
        """The same names; in ``jobset NAME...``, as kubectl has it, the first is the type of the others."""
        # A word alone is a name, also if it is one of a type: a JobSet may be called jobset.
        kind = self._kind(names[0].name) if len(names) > 1 and not names[0].has_type else None
        if kind is None:
            return tuple(names)
        return tuple(name if name.has_type else _of_kind(kind, name.name, has_type=True) for name in names[1:])

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 -- click's signature
        """Names in the cluster, with the type as it was typed; none if the cluster does not respond at once."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 -- only while completing

        type_name, slash, name = incomplete.rpartition("/")
        kind = self._kind(type_name) if slash else self.kinds[0]
        if self._complete is None or kind is None or (_TYPES[kind].names or kind) != self.kinds[0]:
            return []
        return [CompletionItem(f"{type_name}{slash}{candidate}") for candidate in self._complete(ctx, name)]

    def _kind(self, type_name: str) -> str | None:
        resource, _, group = type_name.lower().partition(".")
        for kind in self.kinds:
            names = _TYPES[kind]
            of_group = re.fullmatch(rf"(?:{_VERSION}\.)?{re.escape(names.group)}", group) if group else True
            if resource in {kind.lower(), names.plural, *names.short} and of_group:
                return kind
        return None

    def _allowed(self) -> str:
        return ", ".join(f"{kind.lower()}/NAME" for kind in self.kinds)


def names_argument(parameter: str, names: NameArgument, metavar: str, *, required: bool = False) -> Callable[[F], F]:
    """An argument of several names, which may follow their type as in kubectl: ``jobset NAME...``."""

    def after_type(
        _ctx: click.Context, _param: click.Parameter, value: tuple[ObjectName, ...]
    ) -> tuple[ObjectName, ...]:
        return names.after_type(value)

    return click.argument(parameter, nargs=-1, required=required, metavar=metavar, type=names, callback=after_type)


def name_argument(names: NameArgument, *, required: bool = True) -> Callable[[F], F]:
    """The argument ``name``, which may follow its type; None where it is not given and not required."""

    def only(_ctx: click.Context, _param: click.Parameter, value: tuple[ObjectName, ...]) -> ObjectName | None:
        given = names.after_type(value)
        if len(given) > 1:
            more = " ".join(other.name for other in given[1:])
            raise click.UsageError(f"one at a time: {given[0].name}, without {more}")
        return given[0] if given else None

    metavar = "NAME" if required else "[NAME]"
    return click.argument("name", nargs=-1, required=required, metavar=metavar, type=names, callback=only)


def group_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The name of a PodGroup or of its template, without its type."""
    return value and NameArgument("PodGroup").convert(value, param, ctx).name


def queue_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The name of a LocalQueue, without its type."""
    return value and NameArgument("LocalQueue").convert(value, param, ctx).name
