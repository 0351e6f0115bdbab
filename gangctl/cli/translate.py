"""``gangctl translate``: the Workload and PodGroups of a JobSet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import click

from gangctl.cli import options
from gangctl.cli.manifests import PlannedManifest, PlanQuestion, plan_manifests
from gangctl.cli.messages import note
from gangctl.cli.output import print_answer
from gangctl.errors import InputError
from gangctl.gang.naming import UID_PLACEHOLDER
from gangctl.gang.plan import build_objects

_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@click.command()
@options.files
@options.namespace
@options.output("yaml", "json", "name")
@click.option(
    "--uid",
    metavar="UID",
    help="UID of the JobSet: names hold its first digits. Default: the file's, or a placeholder.",
)
@click.option(
    "--jobs", "with_jobs", is_flag=True, help="Add the child Jobs: metadata, and the reference in the pod template."
)
@options.kubernetes
@options.cluster
@options.gang_schedulers
def translate(
    *,
    filenames: tuple[str, ...],
    namespace: str | None,
    form: str,
    uid: str | None,
    with_jobs: bool,
    kube: str | None,
    cluster: options.ClusterFlags,
    gang_schedulers: tuple[str, ...],
) -> None:
    """Print the Workload and PodGroups of a JobSet.

    The objects are those that the controller creates; with a cluster, a JobSet without a UID has the
    defaults that GangPolicies of the cluster give to new ones. With the UID of a JobSet that
    exists they can be piped to "kubectl apply -f -". A PathwaysJob counts as the JobSet that it
    becomes; "gangctl pathways render" prints that.
    """
    if uid is not None and not _UID.fullmatch(uid):
        raise InputError(f'--uid: "{uid}" is not a UID', hint="kubectl get jobset NAME -o jsonpath={.metadata.uid}")
    planned = plan_manifests(PlanQuestion(filenames, namespace, kube, cluster, gang_schedulers), uid)
    if uid is not None:
        _check_owner(uid, planned)
    objects = [item for one in planned for item in _objects(one, with_jobs=with_jobs, uid=uid)]
    _note_missing(planned, uid=uid, with_jobs=with_jobs)
    print_answer(form, objects)


def _check_owner(uid: str, planned: Sequence[PlannedManifest]) -> None:
    if len(planned) > 1:
        raise InputError(f"--uid names one JobSet, the input holds {len(planned)}", hint="translate them one by one")
    for preview in planned:
        if preview.manifest.jobset.uid not in {"", uid}:
            where = preview.manifest.document.where("metadata.uid")
            raise InputError(f'{where}: metadata.uid: is "{preview.manifest.jobset.uid}" but --uid is "{uid}"')


def _objects(each: PlannedManifest, *, with_jobs: bool, uid: str | None) -> list[dict[str, Any]]:
    plan = each.planned.plan
    objects = build_objects(plan, each.planned.generation) if plan else []
    if with_jobs:
        from gangctl.cli.children import child_jobs  # noqa: PLC0415 -- the sandbox's JobSet, only with --jobs

        real = uid or each.manifest.jobset.uid or UID_PLACEHOLDER
        objects += child_jobs(each.manifest.raw, each.planned, real)
    return objects


def _note_missing(planned: Sequence[PlannedManifest], *, uid: str | None, with_jobs: bool) -> None:
    for preview in planned:
        jobset, title = preview.manifest.jobset, preview.manifest.title
        for warning in preview.report["warnings"]:
            note(f"{title}: {warning['reason']}: {warning['message']}")
        if preview.planned.plan is None and not preview.report["warnings"]:
            note(f"{title} asks for no gang")
        if uid is None and not jobset.uid and (with_jobs or preview.planned.plan is not None):
            note(f"{title} has no UID: names are those of {UID_PLACEHOLDER}; give the real one with --uid")
        if with_jobs and not jobset.namespace:
            note(f'{title} has no namespace: job-key is that of "default"; give the real one with -n')
