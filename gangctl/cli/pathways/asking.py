"""What the verbs of ``gangctl pathways`` are about: files with PathwaysJobs, or flags in place of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gangctl.cli import options
from gangctl.cli.pathways.choices import choices, take_options
from gangctl.cli.pathways.jobflags import job_flags, made_flags, take_job_flags

if TYPE_CHECKING:
    from gangctl.cli.pathways.subjects import Wanted
    from gangctl.cli.pathways.surroundings import Surroundings

F = TypeVar("F", bound=Callable[..., Any])

PROFILES: Final = ("gang", "xpk")
"""Spelled out for the same reason as the choices."""


def source(command: F) -> F:
    """``-f``, ``-n``, the flags of a job, ``--profile``, and the choices among renderings."""
    command = job_flags(choices(command))
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


def wanted(flags: dict[str, Any]) -> Wanted:
    """What the flags of :func:`source` ask for, files read; UsageError where they exclude each other."""
    filenames, profile = flags.pop("filenames"), flags.pop("profile")
    namespace = flags.pop("namespace")
    chosen = take_options(flags)
    job = take_job_flags(flags)
    given = [f"--{name.replace('_', '-')}" for name in job] + (["--profile"] if profile is not None else [])
    if filenames and given:
        raise click.UsageError(f"-f translates what files say: leave it out, or {', '.join(given)}")
    if not filenames and not job:
        raise click.UsageError("give PathwaysJobs with -f, or --workload and the other flags of a job")
    from gangctl.cli.pathways.subjects import Wanted, pathways_jobs  # noqa: PLC0415 -- --help does without
    from gangctl.pathways.result import Profile  # noqa: PLC0415

    documents = pathways_jobs(filenames) if filenames else ()
    described = None if filenames else made_flags(job, namespace)
    return Wanted(documents, described, namespace, chosen, Profile(profile or PROFILES[0]))


def surroundings(
    cluster: options.ClusterFlags, *, namespaces: Iterable[str] | None = None, kueue_namespace: str = ""
) -> Surroundings | None:
    """What the cluster says, where one is named; its queues only where ``namespaces`` are."""
    if not cluster.given:
        return None
    from gangctl.cli.pathways.surroundings import look_around  # noqa: PLC0415 -- half a second that files do without

    return look_around(cluster, namespaces=namespaces, kueue_namespace=kueue_namespace)
