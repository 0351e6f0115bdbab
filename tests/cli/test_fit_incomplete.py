"""``gangctl fit`` and ``queue`` on files that lack what the status of their ClusterQueues proves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.kueueobjects import (
    CONFIGURATION,
    Object,
    cluster,
    cluster_queue,
    condition,
    flavor,
    local_queue,
    queued,
    reserving,
    workload,
)
from tests.cli.manifests import write
from tests.cli.run import gangctl
from tests.cli.topologyobjects import RACK, TWO_RACKS, asking, pod, racks
from tests.rows import each

_FEWER = "the files have fewer Workloads than the status of their ClusterQueue counts"
_HOLDERS = f"who else holds what it waits for: {_FEWER}"
_FIRST = f'which of the workloads in StrictFIFO ClusterQueue "cq" Kueue tries first: {_FEWER}'
MINE = workload("mine", "q", held={"f": {"cpu": "4"}})
WAITING = workload("waits", "q")


def counted(used: str, reserving_: int = 0, pending: int = 0, **spec: Any) -> Object:
    """A ClusterQueue of 8 CPUs with its status."""
    made = reserving(cluster_queue("cq", {"f": {"cpu": "8"}}, **spec), f={"cpu": used})
    made["status"] |= {"reservingWorkloads": reserving_, "pendingWorkloads": pending}
    return made


@each(
    ("queue", "held", "answered"),
    [
        (counted("8", 2), [], ("not-now", [_HOLDERS])),
        (counted("8", 2), [MINE], ("not-now", [_HOLDERS])),
        (counted("6", 2), [MINE], ("fits", [])),
        (counted("4", 1), [MINE], ("fits", [])),
        # One that waits is none of those that hold quota.
        (counted("8", 2), [MINE, WAITING], ("not-now", [_HOLDERS])),
        (counted("0", 0, 1, queueingStrategy="StrictFIFO"), [], ("unknown", [_FIRST])),
        # It got quota before it was listed.
        (counted("0", 0, 1, queueingStrategy="StrictFIFO"), [MINE], ("fits", [])),
        (counted("0", 0, 1), [], ("fits", [])),
    ],
)
def test_workloads_that_only_the_status_counts_hold_quota_and_wait(
    queue: Object, held: list[Object], answered: tuple[str, list[str]], tmp_path: Path
) -> None:
    files = write(tmp_path / "queues.yaml", flavor(), queue, local_queue("q", "cq"), CONFIGURATION, *held)
    file = write(tmp_path / "jobset.yaml", queued(pods=2))
    answer = gangctl("fit", "-f", file, "--queues", files, "-o", "json")
    assert (answer.json["verdict"], answer.json["unknown"]) == answered, answer.json["message"]


def test_a_running_jobset_may_hold_itself_what_only_the_status_counts(tmp_path: Path) -> None:
    files = write(tmp_path / "queues.yaml", flavor(), counted("8", 1), local_queue("q", "cq"), CONFIGURATION)
    for suspend, verdict in ((False, "unknown"), (True, "not-now")):
        file = write(tmp_path / "jobset.yaml", queued(pods=8, uid="u", suspend=suspend))
        assert gangctl("fit", "-f", file, "--queues", files, "-o", "json").json["verdict"] == verdict


def test_a_queue_without_a_status_keeps_to_the_files(tmp_path: Path) -> None:
    other = cluster_queue("other", {"f": {"cpu": "8"}})
    doors = local_queue("q", "other"), local_queue("r", "cq")
    files = write(tmp_path / "queues.yaml", flavor(), counted("8", 2), other, *doors, CONFIGURATION)
    answer = gangctl("fit", "-f", write(tmp_path / "jobset.yaml", queued()), "--queues", files, "-o", "json")
    assert (answer.json["verdict"], answer.json["unknown"]) == ("fits", [])


def test_a_queue_has_the_numbers_of_its_status(tmp_path: Path) -> None:
    door = local_queue("q", "cq")
    door["status"] = {"reservingWorkloads": 1, "pendingWorkloads": 2}
    files = write(tmp_path / "queues.yaml", flavor(), counted("8", 2, 3), door, CONFIGURATION, MINE, WAITING)
    for arguments, numbers in ((("q", "-n", "t"), (2, 1)), (("cq", "--cluster-queue"), (3, 2))):
        report = gangctl("queue", "describe", *arguments, "--queues", files, "-o", "json").json
        assert (report["pending"], report["admitted"]) == numbers
        assert [quota["used"] for quota in report["quotas"]] == ["8"]
        assert [member["position"] for member in report["members"]] == [None, None]
        assert report["unknown"] == [f"positions, and the head of the queue: {_FEWER}"]


@each(
    ("pods", "active", "answered"),
    [
        (9, True, ("unknown", ['labels and taints of ResourceFlavor "spot"'])),
        # Kueue has not seen the queue yet: what the files lack does not exist.
        (9, False, ("not-now", [])),
    ],
)
def test_a_flavor_of_an_active_queue_exists(
    pods: int, active: bool, answered: tuple[str, list[str]], tmp_path: Path
) -> None:
    queue = cluster_queue("cq", {"f": {"cpu": "8"}, "spot": {"cpu": "64"}})
    queue["status"] = {"conditions": [condition("Active")] * active}
    other = cluster_queue("other", {"f": {"cpu": "8"}}), local_queue("r", "other")
    files = write(tmp_path / "queues.yaml", flavor(), queue, local_queue("q", "cq"), CONFIGURATION, *other)
    file = write(tmp_path / "jobset.yaml", queued(pods=pods))
    answer = gangctl("fit", "-f", file, "--queues", files, "-o", "json")
    assert (answer.json["verdict"], answer.json["unknown"]) == answered, answer.json["message"]
    assert ("does not exist" in answer.json["message"]) is not active
    file = write(tmp_path / "jobset.yaml", queued(pods=pods, queue="r"))
    assert gangctl("fit", "-f", file, "--queues", files, "-o", "json").json["verdict"] == "never"


@each(("flavors", "where"), [([], ""), (["f"], ' with flavor "f"')])
def test_a_check_of_an_active_queue_exists(flavors: list[str], where: str, tmp_path: Path) -> None:
    use = {"name": "budget"} | ({"onFlavors": flavors} if flavors else {})
    queues = cluster("8", admissionChecksStrategy={"admissionChecks": [use]})
    queues[1]["status"] = {"conditions": [condition("Active")]}
    files = write(tmp_path / "queues.yaml", *queues)
    answer = gangctl("fit", "-f", write(tmp_path / "jobset.yaml", queued()), "--queues", files, "-o", "json")
    assert answer.json["verdict"] == "fits"
    assert answer.json["unknown"] == [f'whether AdmissionCheck "budget" lets it start{where}']


@each(
    ("total", "spec", "verdict"),
    [
        ("9", {"cohortName": "all"}, "unknown"),
        ("8", {"cohortName": "all"}, "never"),
        # Its quota was larger.
        ("9", {}, "never"),
    ],
)
def test_a_queue_that_borrows_has_others_in_its_cohort(total: str, spec: Object, verdict: str, tmp_path: Path) -> None:
    held = workload("mine", "q", held={"f": {"cpu": total}})
    there = flavor(), counted(total, 1, **spec), local_queue("q", "cq"), CONFIGURATION, held
    files = write(tmp_path / "queues.yaml", *there)
    file = write(tmp_path / "jobset.yaml", queued(pods=9))
    answer = gangctl("fit", "-f", file, "--queues", files, "-o", "json")
    assert answer.json["verdict"] == verdict, answer.json["message"]
    doubt = 'quotas of Cohort "all": ClusterQueues of it hold more than those of the files give'
    assert answer.json["unknown"] == [doubt] * (verdict == "unknown")
    report = gangctl("queue", "describe", "q", "-n", "t", "--queues", files, "-o", "json").json
    lent = ["what its cohort lends: the files have less than its ClusterQueues hold"]
    assert report["unknown"] == lent * (verdict == "unknown")
    assert [(quota["borrowable"], quota["free"]) for quota in report["quotas"]] == (
        [(None, None)] if verdict == "unknown" else [("0", "0")]
    )


@each(("note", "verdict"), [({"kueue.x-k8s.io/workload": "jobset-gone-1"}, "not-now"), ({}, "fits")])
def test_pods_of_a_topology_without_their_workload_use_their_nodes(
    note: dict[str, str], verdict: str, tmp_path: Path
) -> None:
    notes = {"kueue.x-k8s.io/podset-required-topology": RACK} | note
    used = [pod("old-0", "a0", owner="old", **notes), pod("old-1", "b0", owner="old", **notes)]
    files = write(tmp_path / "queues.yaml", *racks(*TWO_RACKS, *used))
    file = write(tmp_path / "jobset.yaml", asking(2, required_topology=RACK))
    answer = gangctl("fit", "-f", file, "--queues", files, "-o", "json")
    assert answer.json["verdict"] == verdict, answer.json["message"]
