"""``gangctl why`` of a gang that the scheduler has rejected: what the nodes could hold, and the next command."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gangctl.api.meta import JOBSET_NAME
from gangctl.cli.gangs import commands
from tests.cli.gangs import dump
from tests.cli.gangs.dump import NAMESPACE, RUNS, WAITS, Object, ask_about
from tests.cli.gangs.place import ALL, USER, Place, place
from tests.cli.run import Answer
from tests.rows import each as rows
from tests.sandbox import faults
from tests.sandbox.faults import Match

GPU = "nvidia.com/gpu"
FIT = f"gangctl fit {WAITS} --fixed-nodes -n {NAMESPACE}"


def asking_for(resource: str, amount: str) -> list[Object]:
    """The dump, with pods of the waiting gang that request this much, and were rejected because of it."""

    def change(spec: Object) -> None:
        spec["containers"][0]["resources"]["requests"] = {resource: amount}

    found = dump.changed(
        "JobSet", WAITS, lambda each: change(each["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"])
    )
    for pod in dump.pods_of(found, WAITS):
        change(pod["spec"])
        pod["status"]["conditions"][0]["message"] = f"0/4 nodes are available: 4 Insufficient {resource}."
    return found


def first_cause(answer: Answer) -> dict[str, Any]:
    cause: dict[str, Any] = answer.json["status"]["causes"][0]
    assert (answer.code, cause["reason"]) == (1, "Unschedulable")
    return cause


async def suggested(here: Place) -> Answer:
    """The output of the command that is suggested."""
    program, *arguments = shlex.split(first_cause(await here.ask("why", WAITS, "-o", "json"))["command"])
    assert program == "gangctl"
    return await here.ask(*arguments)


def test_a_gang_that_no_node_could_hold_is_not_advised_to_wait(tmp_path: Path) -> None:
    cause = first_cause(ask_about(tmp_path, asking_for(GPU, "8"), "why", WAITS, "-o", "json"))
    assert cause["message"].startswith('the nodes can never hold it: a pod of "workers" asks for more than any')
    assert f"4 short of {GPU}" in cause["message"]
    assert "wait" not in cause["remedy"]
    assert cause["command"] == FIT


@rows(
    ("arguments", "compared"),
    [
        (("why", WAITS), True),
        (("describe", WAITS), True),
        (("why",), True),
        (("get", WAITS), False),
        (("get",), False),
        (("top",), False),
    ],
)
def test_only_explanations_compare_pods_with_nodes(
    arguments: tuple[str, ...], compared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each comparison is a simulation of the scheduler: of files no more than of a cluster."""
    for most, expected in ((1, compared), (0, compared and len(arguments) > 1)):
        monkeypatch.setattr(commands, "_MOST_COMPARED", most)
        answer = ask_about(tmp_path, asking_for(GPU, "8"), *arguments, "-o", "json")
        assert ("can never hold it" in answer.out) is expected


def test_a_gang_that_all_nodes_together_could_not_hold_is_not_advised_to_wait(tmp_path: Path) -> None:
    cause = first_cause(ask_about(tmp_path, asking_for("cpu", "3"), "why", WAITS, "-o", "json"))
    assert "the nodes hold 4 of that size at most" in cause["message"]
    assert "wait" not in cause["remedy"]


def test_a_gang_that_the_nodes_could_hold_waits_for_others(tmp_path: Path) -> None:
    cause = first_cause(ask_about(tmp_path, dump.objects(), "why", WAITS, "-o", "json"))
    assert "never" not in cause["message"]
    assert "wait for others to finish" in cause["remedy"]
    assert cause["command"] == FIT


def test_a_gang_that_no_node_selects_is_advised_to_compare_labels(tmp_path: Path) -> None:
    found = asking_for("cpu", "1")
    for each in found:
        if each["kind"] == "Node":
            del each["metadata"]["labels"]["room"]
    for pod in dump.pods_of(found, WAITS):
        message = "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector."
        pod["status"]["conditions"][0]["message"] = message
    cause = first_cause(ask_about(tmp_path, found, "why", WAITS, "-o", "json"))
    assert 'keep pods of "workers" from all of 4 nodes' in cause["message"]
    assert cause["remedy"] == "compare nodeSelector and affinity with the labels of the nodes"
    assert cause["command"].startswith(f"kubectl -n {NAMESPACE} describe pod {WAITS}-")


def admitted(change: Callable[[int, Object], None]) -> list[Object]:
    """The dump with nodes that only tolerant pods may use, and pods of the waiting gang that were changed."""
    found = dump.objects()
    for each in found:
        if each["kind"] == "Node":
            each["spec"]["taints"] = [{"key": GPU, "effect": "NoSchedule"}]
    for index, pod in enumerate(dump.pods_of(found, WAITS)):
        change(index, pod["spec"])
    return found


def tolerate(spec: Object) -> None:
    spec.setdefault("tolerations", []).append({"key": GPU, "operator": "Exists", "effect": "NoSchedule"})


def test_pods_count_and_not_their_templates(tmp_path: Path) -> None:
    """No template tolerates the taint: ExtendedResourceToleration lets the pods do so."""
    cause = first_cause(ask_about(tmp_path, admitted(lambda _, spec: tolerate(spec)), "why", WAITS, "-o", "json"))
    assert "never" not in cause["message"]
    assert "wait for others to finish" in cause["remedy"]
    assert cause["evidence"][-1].endswith(f"(admission, JobSet, Kueue): tolerations of {GPU}:NoSchedule")


def test_of_pods_that_differ_only_the_scheduler_knows(tmp_path: Path) -> None:
    some = admitted(lambda index, spec: tolerate(spec) if index else None)
    cause = first_cause(ask_about(tmp_path, some, "why", WAITS, "-o", "json"))
    assert "never" not in cause["message"]


def changed_by_admission(spec: Object) -> list[Object]:
    """The dump without other pods, with pods that differ from their template, and were rejected."""
    found = [each for each in dump.objects() if each["kind"] != "Pod" or each in dump.pods_of([each], WAITS)]
    for pod in dump.pods_of(found, WAITS):
        pod["spec"] |= spec
        pod["status"]["conditions"][0]["message"] = "0/4 nodes are available: 4 node(s) didn't match."
    return found


def test_pods_that_keep_each_other_from_nodes_are_not_advised_to_wait(tmp_path: Path) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {JOBSET_NAME: WAITS}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for spec, why in (
        (
            {"affinity": apart},
            "one a node (podAntiAffinity)",
        ),
        ({"nodeSelector": {"no": "node"}}, 'keep pods of "workers" from all of 4 nodes'),
    ):
        cause = first_cause(ask_about(tmp_path, changed_by_admission(spec), "why", WAITS, "-o", "json"))
        assert why in cause["message"]
        assert "wait" not in cause["remedy"]


def test_pods_with_the_toleration_of_admission_are_not_kept_out_by_the_taint(tmp_path: Path) -> None:
    toleration = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
    reasons = []
    for tolerations in ([], [toleration]):
        found = changed_by_admission({"tolerations": tolerations})
        for each in found:
            if each["kind"] == "Node":
                each["spec"]["taints"] = [{"key": GPU, "value": "present", "effect": "NoSchedule"}]
        answer = ask_about(tmp_path, found, "why", WAITS, "-o", "json")
        reasons.append("taints" in answer.json["status"]["causes"][0]["message"])
    assert reasons == [True, False]


@pytest.mark.parametrize(("created", "named"), [("2026-11-21T15:09:30Z", True), ("2026-11-21T14:00:00Z", False)])
def test_who_took_the_place_of_a_pod_that_came_back_is_named(tmp_path: Path, created: str, named: bool) -> None:
    found = dump.objects()
    own = dump.pods_of(found, WAITS)
    for pod in own[1:]:
        dump.ready(pod)
        pod["status"]["conditions"][0] |= {"status": "True", "lastTransitionTime": "2026-11-21T15:09:00Z"}
    # So long ago that the scheduler has tried again.
    message = "0/4 nodes are available: 4 Insufficient cpu."
    own[0]["status"]["conditions"][0] |= {"lastTransitionTime": "2026-11-21T15:00:00Z", "message": message}
    node = own[1]["spec"]["nodeName"]
    other = copy.deepcopy(own[1])
    other["metadata"] = {"name": "notebook", "namespace": "team-b", "uid": "notebook", "creationTimestamp": created}
    cause = first_cause(ask_about(tmp_path, [*found, other], "why", WAITS, "-o", "json"))
    line = f"short of cpu: since its pods were placed there came team-b/notebook on {node}"
    assert (line in cause["evidence"]) is named


def test_a_stage_that_has_finished_needs_no_nodes(tmp_path: Path) -> None:
    """What is refused is the other stage, which the nodes could hold."""
    found = dump.objects()
    for each in found:
        if (each["kind"], each["metadata"]["name"]) == ("JobSet", WAITS):
            first = copy.deepcopy(each["spec"]["replicatedJobs"][0])
            first["name"] = "first"
            first["template"]["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {GPU: "8"}
            each["spec"]["replicatedJobs"].append(first)
        elif (each["kind"], each["metadata"]["name"]) == ("Job", f"{WAITS}-workers-0"):
            over = copy.deepcopy(each)
    over["metadata"] |= {"name": f"{WAITS}-first-0", "uid": "over"}
    over["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = "first"
    over["status"] = {"succeeded": 6, "conditions": [{"type": "Complete", "status": "True"}]}
    stuck = first_cause(ask_about(tmp_path, found, "why", WAITS, "-o", "json"))
    assert "never" in stuck["message"]
    cause = first_cause(ask_about(tmp_path, [*found, over], "why", WAITS, "-o", "json"))
    assert "never" not in cause["message"]


async def test_without_a_name_it_is_not_advised_to_wait_either(tmp_path: Path) -> None:
    async with place(tmp_path, asking_for(GPU, "8")) as here:
        answer = await here.ask("why")
    assert (answer.code, answer.err) == (1, "")
    assert "Unschedulable: The nodes can never hold it" in answer.out
    assert "wait" not in answer.out


async def test_the_suggested_fit_runs_without_kueue_and_without_the_resource(tmp_path: Path) -> None:
    async with place(tmp_path, asking_for(GPU, "8")) as here:
        answer = await suggested(here)
    assert (answer.code, answer.err) == (1, "")
    assert f"{NAMESPACE}/{WAITS}" in answer.out
    assert "The nodes can never hold it" in answer.out


async def test_the_suggested_fit_runs_without_kueue_while_others_use_the_nodes(tmp_path: Path) -> None:
    async with place(tmp_path, dump.objects()) as here:
        answer = await suggested(here)
    assert (answer.code, answer.err) == (0, "")
    assert "have no room for all of it now" in answer.out


@rows(
    ("more", "forbidden", "never"),
    [
        ([], ["deviceclasses.resource.k8s.io"], False),
        ([{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}}], [], False),
        ([{"metadata": {"name": "gpu"}, "spec": {}}], [], True),
    ],
)
async def test_what_a_class_of_devices_may_serve_is_not_missing(
    more: list[Object], forbidden: list[str], never: bool, tmp_path: Path
) -> None:
    classes = [{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", **each} for each in more]
    async with place(tmp_path, [*asking_for(GPU, "8"), *classes], forbidden=forbidden) as here:
        cause = first_cause(await here.ask("why", WAITS, "-o", "json"))
    assert ("can never hold it" in cause["message"]) is never, cause["message"]


async def test_without_the_right_to_read_nodes_a_pod_is_described(tmp_path: Path) -> None:
    async with place(tmp_path, asking_for(GPU, "8"), forbidden=["nodes"]) as here:
        cause = first_cause(await here.ask("why", WAITS, "-o", "json"))
    assert "never" not in cause["message"]
    assert f" -n {NAMESPACE} describe pod {WAITS}-" in cause["command"]


def held_gpus() -> list[Object]:
    """A gang has most of the GPUs, and pods of no gang some."""
    found = asking_for(GPU, "8")
    for node in (each for each in found if each["kind"] == "Node"):
        node["status"]["capacity"][GPU] = "16"
    for pod in dump.pods_of(found, RUNS):
        pod["spec"]["containers"][0]["resources"]["requests"] = {GPU: "8"}
    for name, gpus in (("notebook", 2), ("eval", 4), ("idle", 0), ("tiny", 1)):
        spec = {"nodeName": "node-0", "containers": [{"name": "c", "resources": {"requests": {GPU: str(gpus)}}}]}
        made = {"name": name, "namespace": "team-b", "uid": name, "creationTimestamp": "2026-11-21T13:10:00Z"}
        found.append(
            {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec, "status": {"phase": "Running"}}
        )
    return found


HELD = [
    "JobSet team-a/train holds 40 nvidia.com/gpu: 5 pods on 4 nodes, for 4m11s",
    "pod team-b/eval holds 4 nvidia.com/gpu: 1 pod on 1 node, for 2h",
    "pod team-b/notebook holds 2 nvidia.com/gpu: 1 pod on 1 node, for 2h",
    "1 more holds 1 nvidia.com/gpu",
]


def test_who_holds_the_nodes_is_named_the_largest_first(tmp_path: Path) -> None:
    evidence = first_cause(ask_about(tmp_path, held_gpus(), "why", WAITS, "-o", "json"))["evidence"]
    assert [line for line in evidence if " hold" in line] == HELD


def test_who_is_on_a_node_that_the_pods_cannot_use_holds_nothing_that_they_need(tmp_path: Path) -> None:
    found = held_gpus()
    for node in found:
        if node["kind"] == "Node" and node["metadata"]["name"] == "node-0":
            node["spec"] = {"unschedulable": True}
    evidence = first_cause(ask_about(tmp_path, found, "why", WAITS, "-o", "json"))["evidence"]
    (only,) = (line for line in evidence if " hold" in line)
    assert only.startswith("JobSet team-a/train holds 32 nvidia.com/gpu: 4 pods on 3 nodes")


async def test_who_holds_the_nodes_is_not_known_to_one_who_may_not_read_pods_of_others(tmp_path: Path) -> None:
    async with place(tmp_path, held_gpus()) as here:
        denied = faults.error(403, "Forbidden", "pods is forbidden at the cluster scope")
        of_all = Match(USER, resource="pods", where=lambda request: not request.namespace)
        here.sandbox.faults.add(of_all, denied, times=ALL)
        evidence = first_cause(await here.ask("why", WAITS, "-o", "json"))["evidence"]
    assert "who holds the nodes is not known: pods of other namespaces may not be read" in evidence


def test_a_job_that_jobset_pins_to_its_nodes_is_no_measure_of_other_jobs(tmp_path: Path) -> None:
    """The nodes that the pods select hold one Job at most, and the gang may have several."""
    pinned = "alpha.jobset.sigs.k8s.io/namespaced-job"
    there = dump.objects()
    for one in there:
        if one["kind"] == "Node" and one["metadata"]["name"] == "node-0":
            one["metadata"]["labels"][pinned] = f"{NAMESPACE}_{WAITS}-workers-0"
    for pod in dump.pods_of(there, WAITS):
        pod["spec"].setdefault("nodeSelector", {})[pinned] = f"{NAMESPACE}_{WAITS}-workers-0"
    cause = first_cause(ask_about(tmp_path, there, "why", WAITS, "-o", "json"))
    assert "never" not in cause["message"], cause["message"]


def test_a_device_plugin_that_is_not_registered_is_named(tmp_path: Path) -> None:
    there = asking_for(GPU, "1")
    for node in (one for one in there if one["kind"] == "Node"):
        node["status"]["capacity"][GPU] = "0"
    cause = first_cause(ask_about(tmp_path, there, "why", WAITS, "-o", "json"))
    assert "never" not in cause["message"]
    why = f"no device plugin reports {GPU} on 4 of 4 nodes now (capacity 0): see the pods of its DaemonSet"
    assert why in cause["evidence"]


def test_a_pod_that_is_nominated_for_a_node_holds_it(tmp_path: Path) -> None:
    there = asking_for(GPU, "1")
    for node in (one for one in there if one["kind"] == "Node"):
        node["status"]["capacity"][GPU] = "2"
    spec = {"priority": 1000, "containers": [{"name": "c", "resources": {"requests": {GPU: "2"}}}]}
    for name in ("node-0", "node-1"):
        status = {"phase": "Pending", "nominatedNodeName": name}
        made = {"name": f"urgent-{name}", "namespace": "team-b", "uid": name}
        there.append({"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec, "status": status})
    evidence = first_cause(ask_about(tmp_path, there, "why", WAITS, "-o", "json"))["evidence"]
    assert f"pod team-b/urgent-node-0 holds 2 {GPU}: 1 pod on 1 node" in evidence
