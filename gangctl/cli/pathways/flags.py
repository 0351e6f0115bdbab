"""The flags of ``gangctl pathways``: those that describe a job in place of a file, and those that choose a rendering.

Flags of a job are those of XPK where XPK has one, by its name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from gangctl.cli import options
from gangctl.cli.options import F
from gangctl.errors import InputError
from gangctl.pathways.flags.table import CHOICES, JOB_FLAGS, RESOURCE, Flag, Flags, kebab

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from gangctl.cli.pathways.cluster import ClusterFacts
    from gangctl.cli.pathways.subjects import WantedSubjects
    from gangctl.pathways.options import PathwaysOptions


MOST_SECONDS: Final = 2**31 - 1
"""What the API's fields for seconds hold."""
COMPONENTS: Final = ("resourceManager", "proxy")
PROFILES: Final = ("gang", "xpk")
"""Spelled out for ``--help``, which imports no types."""
_LISTS: Final = ("requests", "limits")
_MOST_BYTES: Final = 2**20
"""Of a file with environment variables."""


def complete_accelerators(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of TPU types."""
    from gangctl.cli.pathways.accelerators import complete_name  # noqa: PLC0415 -- only while completing

    return complete_name(ctx, param, incomplete)


def options_of(rows: Mapping[str, Flag], command: F) -> F:
    """The command with the option of each row, in their order."""
    # click lists options in the reverse order in which their decorators are applied.
    for name, row in reversed(list(rows.items())):
        command = _option(name, row)(command)
    return command


def _option(name: str, row: Flag) -> Callable[[F], F]:
    flag = kebab(name)
    if not row.value:
        switch = flag if row.default is False else f"{flag}/--no-{flag[2:]}"
        # None, because a flag that is not given must differ from one that is off.
        return click.option(switch, is_flag=True, default=None, help=row.about)
    if isinstance(row.value, tuple):
        return click.option(flag, type=click.Choice(row.value), help=row.about)
    kind = click.INT if row.value == "NUMBER" else None
    return click.option(
        flag,
        type=kind if row.least is None else click.IntRange(row.least, MOST_SECONDS),
        multiple=row.default == (),
        metavar=row.value,
        help=f"{row.about} Can be repeated." if row.default == () else row.about,
        shell_complete=complete_accelerators if name == "tpu_type" else None,
    )


def take_options(flags: dict[str, Any]) -> PathwaysOptions:
    """The options among the flags of a command, which are taken out; InputError when they are none."""
    from pydantic import ValidationError  # noqa: PLC0415 -- --help does without

    from gangctl.api.modelerrors import message_of  # noqa: PLC0415
    from gangctl.pathways.options import PathwaysOptions  # noqa: PLC0415

    given = {name: value for name in CHOICES if (value := flags.pop(name)) not in {None, ()}}
    if "head_node_selector" in given:
        given["head_node_selector"] = pairs("--head-node-selector", given["head_node_selector"])
    if "head_resources" in given:
        given["head_resources"] = _head_resources(given["head_resources"])
    try:
        return PathwaysOptions.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name, *inner = (str(step) for step in first["loc"])
        raise InputError(f"{kebab(name)}: {''.join(f'{step}: ' for step in inner)}{message_of(first)}") from error


def pairs(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """``KEY=VALUE`` each, where the value may hold more signs of equality; InputError for anything else."""
    entries: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InputError(f'{flag}: "{text}" is not of the form KEY=VALUE')
        if key in entries:
            raise InputError(f'{flag}: "{key}" is given twice')
        entries[key] = value
    return entries


def _head_resources(texts: Iterable[str]) -> dict[str, Any]:
    """Nested as the option has it, of JSON objects and of single quantities."""
    resources: dict[str, Any] = {}
    for text in texts:
        if text.lstrip().startswith("{"):
            _merge(resources, _json(text))
            continue
        path, sign, quantity = text.partition("=")
        # Names of resources may have dots.
        component, list_of, resource = (*path.split(".", 2), "", "")[:3]
        if not sign or not resource or list_of not in _LISTS:
            example = "proxy.limits.memory=50G"
            raise InputError(
                f'--head-resources: "{text}" is not of the form {RESOURCE}',
                hint=f"components: {', '.join(COMPONENTS)}; requests or limits: {example}",
            )
        _merge(resources, {component: {list_of: {resource: quantity}}})
    for component in resources:
        if component not in COMPONENTS:
            raise InputError(f'--head-resources: "{component}" is no component, known: {", ".join(COMPONENTS)}')
    return resources


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--head-resources: this is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError("--head-resources: must be a JSON object")
    return value


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add what is more, object by object; a later value wins over an earlier one."""
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def made_flags(given: dict[str, Any], namespace: str | None) -> Flags:
    """What the command line says, with the text of its file; InputError where that cannot be read."""
    if "env_file" in given:
        given = {**given, "env_file": _text_of(given["env_file"]), "local_environment": dict(os.environ)}
    return Flags(**given, namespace=namespace or "")


def _text_of(file: str) -> str:
    from gangctl.cli.inputs import reason  # noqa: PLC0415 -- --help does without

    try:
        with open(file, "rb") as opened:  # noqa: PTH123 -- bounded, whatever the file is
            content = opened.read(_MOST_BYTES + 1)
        text = content.decode()
    except OSError as error:
        raise InputError(f"--env-file {file}: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--env-file {file}: this is no text in UTF-8") from error
    if len(content) > _MOST_BYTES:
        raise InputError(f"--env-file {file}: larger than {_MOST_BYTES} bytes")
    return text


def source(command: F) -> F:
    """``-f``, ``-n``, the flags of a job, ``--profile``, and the choices among renderings."""
    command = options_of({**JOB_FLAGS, **CHOICES}, command)
    command = click.option(
        "--profile",
        type=click.Choice(PROFILES),
        help="Whose conventions flags follow: gangctl's, or those of AI-Hypercomputer/xpk without a gang. "
        f"Default: {PROFILES[0]}.",
    )(command)
    command = options.namespace(command)
    return options.paths(
        *options.FILENAMES,
        about="Read PathwaysJobs from a file, from all *.yaml, *.yml and *.json below a directory, or from stdin (-). "
        "Can be repeated. Their annotations win over the flags that choose among renderings.",
    )(command)


def target(command: F) -> F:
    """``--kube`` and ``--no-gangs``: what the cluster can do that a rendering is for."""
    return click.option(
        "--no-gangs",
        is_flag=True,
        help="Render for a cluster without gangs: workers keep exclusive placement. Default: what the cluster of "
        "--kubeconfig or --context has, offline with gangs.",
    )(options.kubernetes(command))


def fail_on_warnings(command: F) -> F:
    """``--fail-on-warnings``."""
    return click.option("--fail-on-warnings", is_flag=True, help="Exit with 1 when there is a warning.")(command)


def wanted(flags: dict[str, Any]) -> WantedSubjects:
    """What the flags of :func:`source` and :func:`target` ask for; UsageError where they exclude each other."""
    filenames, profile, namespace = (flags.pop(name) for name in ("filenames", "profile", "namespace"))
    chosen = take_options(flags)
    job = {name: value for name in JOB_FLAGS if (value := flags.pop(name)) is not None and value != ()}
    given = [kebab(name) for name in job] + (["--profile"] if profile is not None else [])
    if filenames and given:
        raise click.UsageError(f"-f translates what files say: leave it out, or {', '.join(given)}")
    if not filenames and not job:
        raise click.UsageError("give PathwaysJobs with -f, or --workload and the other flags of a job")
    from gangctl.cli.pathways.subjects import WantedSubjects, pathways_jobs  # noqa: PLC0415 -- --help does without
    from gangctl.pathways.result import Profile  # noqa: PLC0415

    documents = pathways_jobs(filenames) if filenames else ()
    described = None if filenames else made_flags(job, namespace)
    kube, gangs = flags.pop("kube"), not flags.pop("no_gangs")
    return WantedSubjects(documents, described, namespace, chosen, Profile(profile or PROFILES[0]), kube, gangs)


def facts_of(
    cluster: options.ClusterFlags,
    namespace: str | None,
    *,
    namespaces: Iterable[str] | None = None,
    kueue_namespace: str = "",
) -> ClusterFacts | None:
    """What the cluster says, where one is named; its queues only where ``namespaces`` are."""
    if not cluster.given:
        return None
    from gangctl.cli.pathways.cluster import cluster_facts  # noqa: PLC0415 -- half a second that files do without

    return cluster_facts(cluster, namespace, namespaces=namespaces, kueue_namespace=kueue_namespace)
