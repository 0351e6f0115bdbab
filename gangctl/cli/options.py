"""Flags that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from math import isfinite
from shlex import quote
from typing import Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from gangctl.cli.output import Format, Listing
from gangctl.kueue.names import KUEUE_NAMESPACE

F = TypeVar("F", bound=Callable[..., Any])

FILENAMES: Final = ("-f", "--filename", "filenames")
"""Names of the option that says where objects are read."""
Decorator = Callable[[F], F]

KUBERNETES: Final = ("1.35", "1.36", "1.37", "1.38")
"""Minors that gangctl supports; a copy, because ``--help`` must not import the API's list."""
RELEASED: Final = "1.37"
"""The newest of them that is released: the default."""

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smh])")
LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""Names that DNS allows as a part of a domain."""


def seconds_of(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """A time like 90s, 10m or 1h30m; 0 needs no unit."""
    parts = _DURATION.findall(value)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    # findall skips what does not match: the parts have to be the whole.
    whole = value == "0" or (parts and "".join(number + unit for number, unit in parts) == value)
    if not whole or not isfinite(seconds):
        raise click.BadParameter(f'"{value}" is no time such as 90s, 10m or 1h30m', ctx, param)
    return seconds


class Seconds(click.FloatRange):
    """A number of seconds in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error also for nan, which no range excludes."""
        seconds = float(super().convert(value, param, ctx))
        if not isfinite(seconds):
            self.fail(f"{value} is no number of seconds", param, ctx)
        return seconds


def name_of(what: str, pattern: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A callback that rejects values that are no names."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(pattern, value, flags=re.ASCII):
            raise click.BadParameter(f'"{value}" is not the name of {what}', ctx, param)
        return value

    return check


check_namespace: Final = name_of("a namespace", LABEL)


def paths(*names: str, about: str, required: bool = False) -> Callable[[F], F]:
    """An option that names files, directories, URLs and stdin, and can be repeated; ``names`` as click has them."""
    return click.option(
        *names,
        required=required,
        multiple=True,
        metavar="FILE|DIR|URL|-",
        # Not exists=True: a URL is no file, and errors of reading are reported together.
        type=click.Path(allow_dash=True),
        help=about,
    )


def files(command: F) -> F:
    """``-f``: where to read objects."""
    about = (
        "Read YAML or JSON from a file, from all *.yaml, *.yml and *.json below a directory, from an http or https "
        "URL, or from stdin (-). Can be repeated."
    )
    return paths(*FILENAMES, about=about, required=True)(command)


def namespace_of(about: str) -> Callable[[F], F]:
    """``-n``; an empty one is none, as with kubectl: ``-n "$NAMESPACE"``."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        return check_namespace(ctx, param, value or None)

    return click.option("-n", "--namespace", metavar="NAMESPACE", callback=check, help=about)


def namespace(command: F) -> F:
    """``-n``: the namespace of objects without one."""
    return namespace_of("Namespace of objects that do not name one; others must agree with it.")(command)


def kueue_namespace(command: F) -> F:
    """``--kueue-namespace``: where its configuration is."""
    return click.option(
        "--kueue-namespace",
        metavar="NAMESPACE",
        default=KUEUE_NAMESPACE,
        show_default=True,
        callback=check_namespace,
        help="Where Kueue runs: the ConfigMap with its configuration is read there.",
    )(command)


def no_cluster_is_asked() -> None:
    """Refuse ``--kueue-namespace`` where no cluster is asked: of files, a configuration in any namespace counts."""
    refuse_given("kueue_namespace", "is about a cluster, and none is asked: leave it out")


def refuse_given(name: str, why: str) -> None:
    """A usage error if a flag of the running command was given, which has no effect in this call."""
    context = click.get_current_context()
    if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        (flag,) = (max(option.opts, key=len) for option in context.command.params if option.name == name)
        raise click.UsageError(f"{flag} {why}")


def output(*formats: str) -> Decorator[Any]:
    """``-o``: one of ``formats``, the first by default."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=Format(formats),
        default=formats[0],
        show_default=True,
        help="How to print the answer.",
    )


def no_headers(command: F) -> F:
    """``--no-headers``."""
    return click.option("--no-headers", is_flag=True, help="Print tables without their headers.")(command)


def _check_path(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        from gangctl.api.jsonpath import parse_path  # noqa: PLC0415 -- only with --sort-by

        try:
            parse_path(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error
    return value


def listing(*formats: str) -> Decorator[Any]:
    """The flags of a command that prints a list: ``-o``, ``--no-headers`` and ``--sort-by``, as :class:`Listing`."""

    def decorate(command: Callable[..., None]) -> Any:
        @output(*formats)
        @no_headers
        @click.option(
            "--sort-by",
            metavar="FIELD",
            callback=_check_path,
            help="Sort by this field of the objects that -o json prints, such as .metadata.name.",
        )
        # wraps copies __click_params__, too: click keeps the options of the decorators below there.
        @wraps(command)
        def with_flags(*args: Any, form: str, no_headers: bool, sort_by: str | None, **others: Any) -> None:
            command(*args, listing=Listing(form, headers=not no_headers, sort_by=sort_by or ""), **others)

        return with_flags

    return decorate


def selector(objects: str) -> Decorator[Any]:
    """``-l``: a label selector of these objects."""
    about = f"Only {objects} with these labels: team=a,tier!=x."
    return click.option("-l", "--selector", metavar="SELECTOR", callback=_check_selector, help=about)


def _check_selector(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        from gangctl.api.labelselector import SelectorError, parse_labels  # noqa: PLC0415 -- only with -l

        try:
            parse_labels(value)
        except SelectorError as refused:
            raise click.BadParameter(f"{value}: {refused}", ctx, param) from refused
    return value


def selected(selector: str, raw: Mapping[str, Any]) -> bool:
    """Whether the labels of an object match a selector, as the API server would say."""
    from gangctl.api.labelselector import label_test  # noqa: PLC0415 -- only with -l

    test = label_test(selector)
    return test is None or test((raw.get("metadata") or {}).get("labels") or {})


def kubernetes(command: F) -> F:
    """``--kube``: for which Kubernetes."""
    return click.option(
        "--kube",
        type=click.Choice(KUBERNETES),
        help="Kubernetes minor to answer for. Default: what the cluster of --kubeconfig or --context serves, "
        f"offline {RELEASED}.",
    )(command)


@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """The cluster to use: None is kubectl's default."""

    kubeconfig: str | None = None
    context: str | None = None
    request_seconds: float = 30.0
    """How long a request may take; 0 is without limit."""

    @property
    def given(self) -> bool:
        """Whether a cluster was named."""
        return self.kubeconfig is not None or self.context is not None

    def on(self, command: str) -> str:
        """A command to run next, perhaps a pipe, for this cluster: users paste it into a shell as it is.

        >>> flags = ClusterFlags(context="west")
        >>> flags.on("kubectl get pods"), flags.on("gangctl why a"), ClusterFlags().on("kubectl get pods")
        ('kubectl --context west get pods', 'gangctl why a --context west', 'kubectl get pods')
        """
        if not self.given:
            return command
        parts = command.split(" | ")
        return " | ".join(self._part_on(part, alone=len(parts) == 1) for part in parts)

    def _part_on(self, part: str, *, alone: bool) -> str:
        program, _, words = part.partition(" ")
        context = "--kube-context" if program == "helm" else "--context"
        named = [(context, self.context), ("--kubeconfig", self.kubeconfig)]
        # A command about another cluster has its context.
        flags = [f"{flag} {quote(value)}" for flag, value in named if value is not None and f" {flag} " not in part]
        if not flags or not words:
            return part
        if program in {"kubectl", "helm"}:
            return " ".join([program, *flags, words])
        # In a pipe it reads what kubectl prints, or prints what kubectl applies.
        return " ".join([part, *flags]) if program == "gangctl" and alone else part


def _named(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """A name, or None for an empty one, which kubectl takes for none: ``--context "$CONTEXT"`` of no context."""
    return value or None


def cluster(command: F) -> F:
    """``--kubeconfig``, ``--context`` and ``--request-timeout``: the cluster to use, as :class:`ClusterFlags`."""

    @click.option("--kubeconfig", metavar="FILE", type=click.Path(), callback=_named, help="Kubeconfig to use.")
    @click.option("--context", metavar="NAME", callback=_named, help="Context of the kubeconfig to use.")
    @click.option(
        "--request-timeout",
        metavar="TIME",
        default="30s",
        show_default=True,
        callback=seconds_of,
        help="How long one request to the cluster may take: 1s, 2m. 0: without limit.",
    )
    @wraps(command)
    def with_flags(
        *args: Any, kubeconfig: str | None, context: str | None, request_timeout: float, **others: Any
    ) -> None:
        command(*args, cluster=ClusterFlags(kubeconfig, context, request_timeout), **others)

    return cast("F", with_flags)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker cluster of MultiKueue: its name there, and the context of the kubeconfig for it."""

    name: str
    context: str


def _read_workers(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[Worker, ...]:
    workers: dict[str, Worker] = {}
    for value in values:
        name, equals, context = value.partition("=")
        if not name or (equals and not context):
            raise click.BadParameter(f'"{value}" is neither NAME nor NAME=CONTEXT', ctx, param)
        if name in workers:
            raise click.BadParameter(f'worker cluster "{name}" is named twice', ctx, param)
        workers[name] = Worker(name, context or name)
    return tuple(workers.values())


def workers(command: F) -> F:
    """``--worker``: the worker clusters of MultiKueue to read, as a tuple of :class:`Worker`."""
    return click.option(
        "--worker",
        "workers",
        multiple=True,
        metavar="NAME[=CONTEXT]",
        callback=_read_workers,
        help="Read this worker cluster of MultiKueue, too: its name there and, if that is another one, the context of "
        "the kubeconfig for it. Can be repeated.",
    )(command)


def colour(command: F) -> F:
    """``--no-color``, which is stored in click's context."""

    def decide(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        # Not True: without the flag, the stream and NO_COLOR decide.
        ctx.color = False if value else None

    return click.option(
        "--no-color",
        is_flag=True,
        expose_value=False,
        callback=decide,
        help="Plain text, as with NO_COLOR set or in a pipe.",
    )(command)


def gang_schedulers(command: F) -> F:
    """``--gang-scheduler``: as the controller's flag."""
    return click.option(
        "--gang-scheduler",
        "gang_schedulers",
        multiple=True,
        metavar="NAME",
        help="Name of a scheduler that honours groups. Can be repeated. Default: default-scheduler.",
    )(command)
