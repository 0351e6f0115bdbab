"""The gangs that a command selects, and their source: a cluster, or files instead of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gangctl.api.meta import JOBSET_NAME
from gangctl.cli import options
from gangctl.cli.messages import note, plural
from gangctl.cli.names import GANGS_AND_PODS, NameArgument, ObjectName, ObjectNotFoundError, hint_of_maker
from gangctl.cli.options import F
from gangctl.errors import ForbiddenError, GangctlError, InputError, NotFoundError
from gangctl.kueue.names import KUEUE_NAMESPACE

if TYPE_CHECKING:
    from gangctl.api.objects import Key
    from gangctl.cli.gangs.cluster import ScopeReader
    from gangctl.cli.gangs.state import GangState
    from gangctl.client.client import Client

T = TypeVar("T")

NO_CLUSTER: Final = options.ClusterFlags()
HOW_TO_ASK: Final = 'annotation gangctl.dev/gang-mode: "Gang" asks for one, when the JobSet is created'


@dataclass(frozen=True, slots=True)
class Asking:
    """Options of a command."""

    names: tuple[str, ...] = ()
    """Of JobSets."""
    makers: Mapping[str, str] = field(default_factory=dict)
    """Kinds that the user wrote for some of these names, where they are not JobSet."""
    pods: tuple[str, ...] = ()
    """Pods whose JobSets are selected, too."""
    namespace: str | None = None
    everywhere: bool = False
    selector: str | None = None
    filenames: tuple[str, ...] = ()
    at: datetime | None = None
    cluster: options.ClusterFlags = NO_CLUSTER
    workers: tuple[options.Worker, ...] = ()
    """Worker clusters of MultiKueue to read, too."""
    kueue_namespace: str = KUEUE_NAMESPACE

    @property
    def offline(self) -> bool:
        """Whether files are the source."""
        return bool(self.filenames)


@dataclass(slots=True)
class SelectedGangs:
    """The state, and the selected gangs."""

    state: GangState
    keys: list[Key]
    workers: Mapping[Key, GangState] = field(default_factory=dict)
    """The states of the worker clusters that run some of them, as far as they were read."""
    nothing: str = "No gangs found."
    """What to print where none is shown."""

    def where(self, key: Key) -> GangState:
        """The state of the cluster that runs a gang, as far as it was read."""
        return self.workers.get(key, self.state)


def places(command: F) -> F:
    """``-n``, ``-A``, and the flags of the source."""
    command = click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Gangs of all namespaces.")(
        command
    )
    return of_namespace(command)


def of_namespace(command: F) -> F:
    """``-n``, and the flags of the source, for commands about gangs of one namespace."""
    about = "Namespace of the JobSets. Default: the context's; of files, all."
    return options.namespace_of(about)(options.kueue_namespace(options.cluster(command)))


def files(command: F) -> F:
    """``-f`` and ``--at``: files instead of a cluster."""
    command = click.option(
        "--at",
        type=click.DateTime(["%Y-%m-%dT%H:%M:%SZ"]),
        metavar="TIME",
        help="When the files were written, like 2026-01-31T12:00:00Z. Default: now.",
    )(command)
    return options.paths(
        *options.FILENAMES,
        about="Read what kubectl get -o yaml printed (jobsets, jobs, pods, podgroups, workloads, events, nodes, "
        "and Kueue's objects) instead of a cluster. Can be repeated.",
    )(command)


def asked(names: Sequence[ObjectName] = (), *, at: datetime | None = None, **flags: Any) -> Asking:
    """The validated options; conflicting ones are a usage error."""
    pods = tuple(dict.fromkeys(name.name for name in names if name.kind == "Pod"))
    jobsets = tuple(dict.fromkeys(name.name for name in names if name.kind != "Pod"))
    makers = {name.name: name.typed for name in names if name.typed}
    asking = Asking(jobsets, makers, pods, at=at.replace(tzinfo=UTC) if at is not None else None, **flags)
    if asking.namespace and asking.everywhere:
        raise click.UsageError("--namespace excludes --all-namespaces")
    if names and asking.selector:
        raise click.UsageError("names exclude --selector")
    # Of files, all namespaces are the default.
    if names and asking.everywhere and not asking.offline:
        raise click.UsageError("names are of one namespace: leave --all-namespaces out")
    if asking.offline and asking.workers:
        raise click.UsageError("-f stands in for clusters: leave it out, or --worker")
    if asking.offline and asking.cluster.given:
        raise click.UsageError("-f stands in for a cluster: leave it out, or --kubeconfig and --context")
    if asking.offline:
        options.no_cluster_is_asked()
    if asking.at is not None and not asking.offline:
        raise click.UsageError("--at is about files: a cluster is asked about now")
    return asking


def _complete(ctx: click.Context, incomplete: str) -> list[str]:
    """Names of JobSets of the cluster that the flags select so far; empty if it does not respond at once."""
    from gangctl.cli.cluster import names_of  # noqa: PLC0415 -- only while completing
    from gangctl.client.resources import JOBSETS  # noqa: PLC0415

    return names_of(ctx, JOBSETS, incomplete)


GANG_NAME: Final = NameArgument(*GANGS_AND_PODS, complete=_complete)
"""The type of an argument that names a gang, by its JobSet or one of its pods."""


def one_of_each(found: SelectedGangs) -> list[Key]:
    """The gangs of the names, one of each; InputError if files have a name in several namespaces."""
    for name, count in Counter(name for _, name in found.keys).items():
        if count > 1:
            namespaces = ", ".join(namespace for namespace, named in found.keys if named == name)
            raise InputError(f"the files have JobSet {name} in several namespaces", hint=f"-n says which: {namespaces}")
    return found.keys


def find(
    asking: Asking,
    more: Callable[[ScopeReader, list[Key]], Awaitable[None]] | None = None,
    compared: Callable[[GangState, list[Key]], Iterable[Key]] = lambda _state, _keys: (),
) -> SelectedGangs:
    """Read the selected gangs.

    ``more`` reads other objects from a cluster; ``compared`` are the gangs that are compared with the nodes of files.
    """
    if asking.offline:
        from gangctl.cli.gangs.files import read_files  # noqa: PLC0415 -- --help does without
        from gangctl.cli.gangs.onnodes import compare_with_nodes  # noqa: PLC0415

        state = read_files(asking.filenames, asking.at)
        keys = pick(state, _of_pods_in(state, asking), asking.namespace)
        for key in compared(state, keys):
            compare_with_nodes(state, key, state.queues)
        place = f" in namespace {asking.namespace}" if asking.namespace else ""
        return SelectedGangs(state, keys, nothing=f"No gangs found{place}.")

    async def question(reader: ScopeReader, keys: list[Key]) -> SelectedGangs:
        if more is not None:
            await more(reader, keys)
        nothing = await _nothing(reader, keys)
        if not asking.workers:
            return SelectedGangs(reader.state, keys, nothing=nothing)
        from gangctl.cli.gangs.cluster import read_workers  # noqa: PLC0415 -- only with --worker

        return SelectedGangs(reader.state, keys, await read_workers(asking, reader.state, keys, more), nothing)

    return live(asking, question)


async def _nothing(reader: ScopeReader, keys: Sequence[Key]) -> str:
    """That there are none, and where to look; a namespace that does not exist is named."""
    namespace = reader.scope.namespace
    if namespace is None:
        return "No gangs found."
    if not keys and await _is_missing(reader, namespace):
        return f"No gangs found: namespace {namespace} does not exist."
    return f"No gangs found in namespace {namespace}; -A shows those of all namespaces."


async def _is_missing(reader: ScopeReader, namespace: str) -> bool:
    """Whether a namespace is known not to exist: few users may read Namespaces."""
    from gangctl.client.resources import NAMESPACES  # noqa: PLC0415 -- --help does without

    try:
        await reader.client.get(NAMESPACES, namespace)
    except (NotFoundError, ForbiddenError) as refused:
        return isinstance(refused, NotFoundError)
    return False


def live(asking: Asking, question: Callable[[ScopeReader, list[Key]], Awaitable[T]], *, watching: bool = False) -> T:
    """Run a function on the cluster of the gangs; ``watching`` allows gangs that are created later."""
    from gangctl.cli.cluster import ask_cluster, names_in  # noqa: PLC0415 -- half a second that files do without
    from gangctl.cli.gangs.cluster import JobSetScope, ScopeReader  # noqa: PLC0415
    from gangctl.client.resources import JOBSETS  # noqa: PLC0415

    async def ask(client: Any, own_namespace: str) -> T:
        home = None if asking.everywhere else asking.namespace or own_namespace
        wanted = await _of_pods(client, asking, asking.namespace or own_namespace)
        scope = JobSetScope(home, wanted.names, asking.selector)
        reader = ScopeReader(
            client, scope, kueue_namespace=asking.kueue_namespace, watching=watching, flags=asking.cluster
        )
        state = await reader.read()
        try:
            keys = pick(state, wanted, home)
        except ObjectNotFoundError as error:
            # Only JobSets of the wanted names were read: the others are listed to suggest one.
            raise _unknown(wanted, home, error.name, await names_in(client, JOBSETS, home)) from error
        return await question(reader, keys)

    return ask_cluster(asking.cluster, ask)


def _unknown(asking: Asking, namespace: str | None, name: str, others: Sequence[str]) -> ObjectNotFoundError:
    hint = hint_of_maker(asking.makers.get(name, ""), name, namespace)
    hint = hint or "gangctl get -A lists all gangs; -n names their namespace"
    return ObjectNotFoundError("JobSet", name, namespace, others=others, hint=hint)


async def _of_pods(client: Client, asking: Asking, namespace: str) -> Asking:
    """The request with the JobSets of its pods."""
    from gangctl.client.resources import PODS  # noqa: PLC0415 -- --help does without

    owners = []
    for name in asking.pods:
        try:
            pod = await client.get(PODS, name, namespace)
        except NotFoundError as error:
            raise ObjectNotFoundError("Pod", name, namespace) from error
        owners.append(_owner(name, namespace, (pod["metadata"].get("labels") or {}).get(JOBSET_NAME)))
    return _with(asking, owners)


def _of_pods_in(state: GangState, asking: Asking) -> Asking:
    """The same of files."""
    owners = []
    for name in asking.pods:
        pods = [pod for pod in state.pods.values() if pod.name == name and asking.namespace in {None, pod.namespace}]
        if not pods:
            hint = "pods that have finished are not read from files"
            raise ObjectNotFoundError("Pod", name, asking.namespace, hint=hint)
        owners.append(_owner(name, pods[0].namespace, pods[0].jobset))
    return _with(asking, owners)


def _owner(pod: str, namespace: str, jobset: str | None) -> str:
    if not jobset:
        raise NotAGangError(f"pod {namespace}/{pod} is not of a JobSet: it has no label {JOBSET_NAME}")
    return jobset


def _with(asking: Asking, names: Sequence[str]) -> Asking:
    return replace(asking, names=tuple(dict.fromkeys([*asking.names, *names])), pods=())


class NotAGangError(GangctlError):
    """An object exists, and is no gang: exit code 1."""

    code = "NotAGang"


def pick(state: GangState, asking: Asking, namespace: str | None) -> list[Key]:
    """The selected gangs, in order; ObjectNotFoundError or NotAGangError for a name that is none."""
    from gangctl.readiness.facts import is_followed  # noqa: PLC0415 -- --help does without

    here = [jobset for jobset in state.jobsets.values() if namespace in {None, jobset.jobset.namespace}]
    if not asking.names:
        followed = sorted(
            stored.jobset.key for stored in here if is_followed(stored.jobset) and _selected(asking, stored.raw)
        )
        if not followed and here:
            count = f"{plural(len(here), 'JobSet')}"
            note(f"{count} without a gang: {HOW_TO_ASK}")
        return followed
    keys: list[Key] = []
    for name in asking.names:
        named = [stored.jobset for stored in here if stored.jobset.name == name]
        if not named:
            raise _unknown(asking, namespace, name, [stored.jobset.name for stored in here])
        gangs = [jobset.key for jobset in named if is_followed(jobset)]
        if not gangs:
            title = f"{named[0].namespace}/{name}"
            raise NotAGangError(f"JobSet {title} asks for no gang: its pods are scheduled one by one", hint=HOW_TO_ASK)
        keys += gangs
    return keys


def _selected(asking: Asking, raw: dict[str, Any]) -> bool:
    """Whether the labels match the selector; a server has checked already."""
    if not asking.selector or not asking.offline:
        return True
    return options.selected(asking.selector, raw)
