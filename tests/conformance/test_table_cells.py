"""Tables of what runs: pods, Jobs, JobSets and gangs."""

import pytest

from tests.conformance.gangs import Shapes, group
from tests.conformance.grounds import Server, only
from tests.conformance.objects import create_pod, job, jobs, jobset, jobsets, pod, pod_spec, podgroups, pods, workloads
from tests.conformance.tables import ask, cells, shown
from tests.controlplane.api import Object
from tests.rows import each

CONTAINER = {"name": "c", "image": "i", "imageID": "", "restartCount": 0, "lastState": {}}
RUNNING = {**CONTAINER, "ready": True, "started": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
ENDED = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:00Z"}
READY = [{"type": each, "status": "True"} for each in ("Initialized", "Ready")]


def ended(code: int, reason: str) -> Object:
    state = {"terminated": {"exitCode": code, "reason": reason, **ENDED}}
    return {**CONTAINER, "ready": False, "state": state}


@each(
    ("status", "row"),
    [
        ({}, ["0/1", "Pending", "0"]),
        ({"phase": "Running", "conditions": READY, "containerStatuses": [RUNNING]}, ["1/1", "Running", "0"]),
        ({"phase": "Succeeded", "containerStatuses": [ended(0, "Completed")]}, ["0/1", "Completed", "0"]),
        ({"phase": "Failed", "containerStatuses": [ended(1, "Error")]}, ["0/1", "Error", "0"]),
        ({"phase": "Failed", "reason": "Evicted"}, ["0/1", "Evicted", "0"]),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            },
            ["0/1", "SchedulingGated", "0"],
        ),
    ],
)
async def test_the_status_of_a_pod_is_that_of_its_containers(
    server: Server, namespace: str, status: Object, row: list[str]
) -> None:
    created = await create_pod(server, namespace, pod("", generateName="p-"))
    name = created["metadata"]["name"]
    await server.api.patch(f"{pods(namespace, name)}/status", {"status": status})
    table = await ask(server, pods(namespace, name))
    assert cells(table) == [[name, *row, "AGE", "<none>", "<none>", "<none>", "<none>"]]
    ends = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    phase = status.get("phase", "")
    assert table["rows"][0].get("conditions") == (
        [{"type": "Completed", "status": "True", "reason": phase, "message": ends[phase]}] if phase in ends else None
    )


@each(
    ("inits", "row"),
    [
        ([], ["0/2", "Pending", "0"]),
        ([{**ended(0, "Completed"), "name": "one"}, {**RUNNING, "name": "side"}], ["1/2", "Pending", "0"]),
    ],
)
async def test_the_status_of_a_pod_before_its_containers(
    server: Server, namespace: str, inits: list[Object], row: list[str]
) -> None:
    spec = pod_spec(
        initContainers=[
            {"name": "one", "image": "i"},
            {"name": "side", "image": "i", "restartPolicy": "Always"},
        ]
    )
    created = await create_pod(server, namespace, pod("", spec, generateName="p-"))
    name = created["metadata"]["name"]
    await server.api.patch(f"{pods(namespace, name)}/status", {"status": {"initContainerStatuses": inits}})
    assert cells(await ask(server, pods(namespace, name)))[0][:4] == [name, *row]


async def test_columns_of_pods(server: Server, namespace: str) -> None:
    table = await ask(server, pods(namespace))
    assert shown(table) == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert shown(table, wide=True)[5:] == ["IP", "Node", "Nominated Node", "Readiness Gates"]
    spec = pod_spec(nodeName="n", readinessGates=[{"conditionType": "g"}, {"conditionType": "h"}])
    await create_pod(server, namespace, pod("a", spec, finalizers=["example.com/stays"]))
    status = {
        "podIP": "10.0.0.7",
        "podIPs": [{"ip": "10.0.0.7"}],
        "phase": "Running",
        "conditions": [{"type": "g", "status": "True"}],
    }
    await server.api.patch(f"{pods(namespace, 'a')}/status", {"status": status})
    (row,) = cells(await ask(server, pods(namespace)))
    assert row[5:] == ["10.0.0.7", "n", "<none>", "1/2"]
    await server.api.delete(pods(namespace, "a"), grace=0)
    assert cells(await ask(server, pods(namespace, "a")))[0][2] == "Terminating"
    await server.api.patch(pods(namespace, "a"), {"metadata": {"finalizers": None}})


async def test_columns_of_jobs(server: Server, namespace: str) -> None:
    await server.api.create(jobs(namespace), job("a", completions=3, parallelism=2))
    await server.api.create(jobs(namespace), job("b", parallelism=2))
    table = await ask(server, jobs(namespace))
    assert shown(table) == ["Name", "Status", "Completions", "Duration", "Age"]
    assert shown(table, wide=True)[5:] == ["Containers", "Images", "Selector"]
    rows = cells(table)
    assert [[*row[:1], *row[2:7]] for row in rows] == [
        ["a", "0/3", "", "AGE", "c", "i"],
        ["b", "0/1 of 2", "", "AGE", "c", "i"],
    ]
    created = await server.api.get(jobs(namespace, "a"))
    assert rows[0][7] == f"batch.kubernetes.io/controller-uid={created['metadata']['uid']}"


async def test_columns_of_jobsets(server: Server, namespace: str) -> None:
    await server.api.create(jobsets(namespace), jobset("a"))
    table = await ask(server, jobsets(namespace))
    assert shown(table) == ["Name", "TerminalState", "Restarts", "Completed", "Suspended", "Age"]
    assert [each["type"] for each in table["columnDefinitions"]] == ["string"] * 5 + ["date"]
    (row,) = cells(table)
    assert (row[0], row[3:]) == ("a", [None, "true", "AGE"])


async def test_columns_of_workloads(server: Server, workload: str) -> None:
    table = await ask(server, workload)
    assert shown(table, wide=True) == ["Name", "Age"]
    assert cells(table) == [["w", "AGE"]]


@pytest.mark.differs("1.36")
@only("1.36", "1.37")
async def test_columns_of_pod_groups(server: Server, namespace: str, shapes: Shapes) -> None:
    await server.api.create(workloads(server, namespace), shapes.workload(shapes.template("g")))
    await server.api.create(podgroups(server, namespace), group("a", **shapes.reference("w", "g")))
    await server.api.create(
        podgroups(server, namespace), {"metadata": {"name": "b"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    )
    table = await ask(server, podgroups(server, namespace))
    assert shown(table, wide=True) == ["Name", "Policy", "Workload", "Status", "Age"]
    assert cells(table) == [["a", "Gang", "w", "Pending", "AGE"], ["b", "Basic", "<none>", "Pending", "AGE"]]
    kind = {"1.36": "PodGroupScheduled", "1.37": "PodGroupInitiallyScheduled"}[server.minor.name]
    for status, word in (("False", "Unschedulable"), ("True", "Scheduled")):
        condition = {
            "type": kind,
            "status": status,
            "reason": word,
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        path = f"{podgroups(server, namespace, 'a')}/status"
        await server.api.patch(path, {"status": {"conditions": [condition]}})
        assert cells(await ask(server, podgroups(server, namespace, "a")))[0][3] == word
