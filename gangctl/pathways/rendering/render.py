"""A PathwaysJob as a JobSet: pure, total, and the same bytes for the same job."""

from __future__ import annotations

from typing import Any, Final

from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.names import address
from gangctl.pathways.origins import origins, plain
from gangctl.pathways.rendering.containers import component_notices
from gangctl.pathways.rendering.gang import choose
from gangctl.pathways.rendering.head import head_notices
from gangctl.pathways.rendering.headroom import head_requests
from gangctl.pathways.rendering.jobset import jobset
from gangctl.pathways.rendering.metadata import metadata_notices
from gangctl.pathways.rendering.placement import placement_notices
from gangctl.pathways.result import Rendering, Setting
from gangctl.pathways.words import PROXY_PORT

_SETTING: Final = Setting()


def render(job: PathwaysJob, setting: Setting = _SETTING) -> Rendering:
    """The JobSet of a job that was read and checked; the job is not changed, and no values are shared."""
    choice = choose(job, setting)
    tree = jobset(job, setting, choice)
    rendered = plain(tree)
    head: dict[str, Any] = rendered["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return Rendering(
        jobset=rendered,
        origins=origins(tree),
        notices=(
            *choice.notices,
            *placement_notices(job, choice),
            *metadata_notices(job),
            *head_notices(job),
            *component_notices(job, setting),
            *_privileged(head),
        ),
        head_requests=head_requests(head),
        proxy_address=f"grpc://{address(job)}:{PROXY_PORT}",
    )


def _privileged(head: dict[str, Any]) -> tuple[Notice, ...]:
    containers = [*head.get("initContainers", ()), *head["containers"]]
    names = [each["name"] for each in containers if (each.get("securityContext") or {}).get("privileged")]
    if not names:
        return ()
    message = f"Privileged: {', '.join(names)}. The namespace must allow it (pod security level privileged)."
    return (Notice(Reason.PRIVILEGED_POD, message),)
