"""The JobSet around head and workers: its network, when it starts, restarts, succeeds and is deleted."""

from __future__ import annotations

from typing import Any

from gangctl.api.meta import JOBSET_API_VERSION
from gangctl.pathways.gangs import startup
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.names import subdomain
from gangctl.pathways.options import Startup
from gangctl.pathways.origins import From, option, rule
from gangctl.pathways.rendering.gang import Choice
from gangctl.pathways.rendering.head import head
from gangctl.pathways.rendering.metadata import jobset_metadata
from gangctl.pathways.rendering.workers import workers
from gangctl.pathways.result import Setting
from gangctl.pathways.words import HEAD

Tree = dict[str, Any]


def jobset(job: PathwaysJob, setting: Setting, choice: Choice) -> Tree:
    """The whole object. ``suspend`` is never set, because Kueue owns it."""
    why = "what JobSets are called"
    order = startup(job)
    return {
        "apiVersion": rule(JOBSET_API_VERSION, why),
        "kind": rule("JobSet", why),
        "metadata": jobset_metadata(job, setting, choice),
        "spec": {
            **_time_to_live(job),
            "network": _network(job),
            "coordinator": _coordinator(),
            **_startup_policy(job, order),
            **_success_policy(job),
            "failurePolicy": {
                "maxRestarts": From(job.max_restarts, job.origin("spec.maxRestarts")),
                "restartStrategy": rule("Recreate", "a restart begins with the Jobs that are gone"),
            },
            "replicatedJobs": [head(job, setting), workers(job, setting, choice, order)],
        },
    }


def _network(job: PathwaysJob) -> Tree:
    network: Tree = {
        "enableDNSHostnames": rule(True, "the head is found by name"),
        "publishNotReadyAddresses": rule(True, "the head is looked for before it is ready"),
    }
    name = subdomain(job)
    if name:
        why = "a short one, the name needs the room" if name != job.options.subdomain else ""
        network["subdomain"] = option(name, "subdomain", why)
    return network


def _coordinator() -> Tree:
    why = "its address is what all pods call the head"
    return {"replicatedJob": rule(HEAD, why), "jobIndex": rule(0, why), "podIndex": rule(0, why)}


def _startup_policy(job: PathwaysJob, order: Startup) -> Tree:
    """Absent with ``dependsOn``: JobSet rejects both."""
    if order is Startup.DEPENDS_ON:
        return {}
    if job.options.startup is not None:
        return {"startupPolicy": {"startupPolicyOrder": option(str(order), "startup")}}
    together = order is Startup.ANY_ORDER
    why = "head and workers wait for each other's place" if together else "workers register with a head that is ready"
    return {"startupPolicy": {"startupPolicyOrder": rule(str(order), why)}}


def _success_policy(job: PathwaysJob) -> Tree:
    """Absent without a user pod: then no container ends by itself."""
    if job.headless:
        return {}
    policy = {"operator": "All", "targetReplicatedJobs": [HEAD]}
    return {"successPolicy": rule(policy, "workers serve until the client is done")}


def _time_to_live(job: PathwaysJob) -> Tree:
    seconds = job.options.ttl_seconds_after_finished
    return {} if seconds is None else {"ttlSecondsAfterFinished": option(seconds, "ttlSecondsAfterFinished")}
