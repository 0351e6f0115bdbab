"""The dump in examples/stuck, which a real Kubernetes 1.37 wrote, to be changed and asked about."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cli.kueueobjects import QUEUE, cluster_queue, flavor, local_queue, workload
from tests.cli.manifests import write
from tests.cli.run import Answer, gangctl

Object = dict[str, Any]

STUCK: Final = Path(__file__).parents[3] / "examples" / "stuck"
AT: Final = "2026-11-21T15:10:00Z"
"""Four minutes after its gangs were made."""
RUNS: Final = "train"
WAITS: Final = "sweep"
NAMESPACE: Final = "team-a"
GROUP_OF_SWEEP: Final = "sweep-cad6dd0b-52b2-0"

_OBJECTS: Final[list[Object]] = [
    each for file in sorted(STUCK.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]


def objects(*kinds: str, but: Iterable[str] = ()) -> list[Object]:
    """Objects of these kinds (all by default), not of those; the caller's own."""
    left_out = set(but)
    found = (each for each in _OBJECTS if each["kind"] not in left_out and (not kinds or each["kind"] in kinds))
    return copy.deepcopy(list(found))


def changed(kind: str, name: str, change: Callable[[Object], object]) -> list[Object]:
    """Everything, with one object changed."""
    found = objects()
    for each in found:
        if (each["kind"], each["metadata"]["name"]) == (kind, name):
            change(each)
    return found


def pods_of(found: Iterable[Object], jobset: str) -> list[Object]:
    """Pods of a JobSet."""
    label = "jobset.sigs.k8s.io/jobset-name"
    return [each for each in found if each["kind"] == "Pod" and each["metadata"]["labels"][label] == jobset]


def ask(verb: str, *arguments: str) -> Answer:
    """Ask about the dump as it is."""
    return gangctl(verb, *arguments, "-f", str(STUCK), "--at", AT)


def ask_about(directory: Path, found: Iterable[Object], verb: str, *arguments: str) -> Answer:
    """Ask about other objects."""
    return gangctl(verb, *arguments, "-f", write(directory / "dump.yaml", *found), "--at", AT)


def elastic(placed: int) -> list[Object]:
    """The waiting gang with a minCount of 3 of its 6 pods, so many of which are ready on nodes of their own."""

    def lower(raw: Object) -> None:
        of_workers = "[{name: jobset, replicatedJobs: [workers], minCount: 3}]"
        raw["metadata"]["annotations"] = {"gangctl.dev/gangs": of_workers}
        stamped = raw["spec"]["replicatedJobs"][0]["template"]["metadata"]
        stamped["annotations"]["gangctl.dev/gang-ref"] = "rj/jobset/sweep-jobset"

    text = json.dumps(changed("JobSet", WAITS, lower)).replace(GROUP_OF_SWEEP, "sweep-jobset-cad6dd0b-52b2-0")
    found: list[Object] = json.loads(text)
    (group,) = (one for one in found if one["kind"] == "PodGroup" and one["metadata"]["name"].startswith(WAITS))
    group["spec"]["schedulingPolicy"]["gang"]["minCount"] = 3
    group["status"]["conditions"][0] |= {"status": "True", "reason": "Scheduled"}
    for number, pod in enumerate(pods_of(found, WAITS)[:placed]):
        ready(pod, node=f"node-{number}")
    return found


def queued(*more: Object, cpu: str = "8", pods: int = 6) -> list[Object]:
    """The dump, with the waiting gang suspended in LocalQueue ``q``, which has so many CPUs."""

    def suspend(each: Object) -> None:
        each["metadata"]["labels"] = {QUEUE: "q"}
        each["spec"]["suspend"] = True
        each["spec"]["replicatedJobs"][0]["template"]["spec"] |= {"parallelism": pods, "completions": pods}

    found = changed("JobSet", WAITS, suspend)
    gone = {id(pod) for pod in pods_of(found, WAITS)}
    queues = [flavor(), cluster_queue("cq", {"f": {"cpu": cpu}}), local_queue("q", "cq", NAMESPACE)]
    return [*(each for each in found if id(each) not in gone), *queues, *more]


def queued_workload(*conditions: Object, **spec: Any) -> Object:
    """Kueue's Workload of the waiting gang."""
    made = workload(WAITS, "q", *conditions, namespace=NAMESPACE, pods=6, **spec)
    uid = next(each for each in objects("JobSet") if each["metadata"]["name"] == WAITS)["metadata"]["uid"]
    made["metadata"]["ownerReferences"][0]["uid"] = uid
    return made


def finish(jobset: Object, outcome: str, message: str = "") -> None:
    """End a JobSet."""
    condition = {
        "type": outcome,
        "status": "True",
        "reason": "FailedJobs" if outcome == "Failed" else "AllJobsCompleted",
        "message": message,
        "lastTransitionTime": "2026-11-21T15:09:00Z",
    }
    jobset["status"] |= {"conditions": [condition], "terminalState": outcome}


def ready(pod: Object, at: str = "2026-11-21T15:09:00Z", node: str = "node-0") -> None:
    """Put a pod on a node, where it is ready."""
    pod["spec"]["nodeName"] = node
    pod["status"] = {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": at} for kind in ("PodScheduled", "Ready")
        ],
    }
