"""PodGroups in the API version of each minor that has them."""

import secrets

import pytest

from tests.conformance.answers import forbidden, invalid, send, warnings_of
from tests.conformance.gangs import Shapes, group
from tests.conformance.grounds import Server, only
from tests.conformance.objects import create_pod, gone, pod, pod_spec, podgroups, pods
from tests.controlplane.api import ApiFailure, Object
from tests.controlplane.wait import wait_for
from tests.rows import each

PROTECTION = "scheduling.k8s.io/podgroup-protection"


@pytest.fixture
async def gang(server: Server, namespace: str, workload: str, shapes: Shapes) -> str:
    """The path of a PodGroup made from the template g."""
    assert workload
    await server.api.create(podgroups(server, namespace), group(**shapes.reference("w", "g")))
    return podgroups(server, namespace, "g")


# What the server adds to a PodGroup. Priorities are copied from their class from 1.37 on.
FILLED: dict[str, Object] = {
    "1.37": {"disruptionMode": {"single": {}}, "priority": 0},
    "1.36": {"disruptionMode": "Pod"},
}
UNSET: dict[str, Object] = {"1.37": {}, "1.36": {"podGroupTemplateRef": None}}


@only("1.36", "1.37")
async def test_a_pod_group_is_defaulted_and_has_a_finalizer(
    server: Server, gang: str, shapes: Shapes, namespace: str
) -> None:
    # A pod group is protected and filled in.
    read = await server.api.get(gang)
    assert read["metadata"]["finalizers"] == [PROTECTION]
    assert read["status"] == {}
    assert read["spec"] == {
        **shapes.reference("w", "g"),
        "schedulingPolicy": {"gang": {"minCount": 2}},
        **FILLED[server.minor.name],
    }
    assert "generation" not in read["metadata"]

    # A pod group may stand alone.
    created = await server.api.create(podgroups(server, namespace), group("alone"))
    assert created["spec"] == {
        **UNSET[server.minor.name],
        "schedulingPolicy": {"gang": {"minCount": 2}},
        **FILLED[server.minor.name],
    }


@only("1.36")
async def test_1_36_requires_workload_and_template_of_a_pod_group(
    server: Server, namespace: str, shapes: Shapes, workload: str
) -> None:
    # 1.36 wants the workload of a pod group.
    await forbidden(
        server.api.create(podgroups(server, namespace), group(**shapes.reference("nowhere", "g"))),
        'podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: Workload "nowhere" not found',
    )

    # 1.36 wants the template of a pod group.
    assert workload
    await forbidden(
        server.api.create(podgroups(server, namespace), group(**shapes.reference("w", "nothing"))),
        'podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: '
        'PodGroupTemplate "nothing" not found in Workload "w"',
    )


@only("1.37")
async def test_1_37_requires_the_priority_class_but_no_workload(server: Server, namespace: str, shapes: Shapes) -> None:
    # 1.37 wants the priority class of a pod group.
    await forbidden(
        server.api.create(podgroups(server, namespace), group(priorityClassName="nowhere")),
        'podgroups.scheduling.k8s.io "g" is forbidden: no PriorityClass with name nowhere was found',
    )

    # 1.37 takes no priority without its class.
    await forbidden(
        server.api.create(podgroups(server, namespace), group(priority=5)),
        'podgroups.scheduling.k8s.io "g" is forbidden: priority set in the pod group (5) must match the priority '
        "computed (0) based on the priority class set in the spec",
    )

    # 1.37 takes a pod group before its workload.
    reference = shapes.reference("nowhere", "g")
    created = await server.api.create(podgroups(server, namespace), group(**reference))
    assert created["spec"].items() >= reference.items()


@only("1.36", "1.37")
@each(
    ("policy", "words"),
    [
        ({"gang": {"minCount": 0}}, ".gang.minCount: Required value"),
        ({}, ': Invalid value: "": must specify one of: `basic`, `gang`'),
    ],
)
async def test_a_pod_group_is_validated(server: Server, namespace: str, policy: Object, words: str) -> None:
    await invalid(
        server.api.create(podgroups(server, namespace), group(schedulingPolicy=policy)),
        f'PodGroup.scheduling.k8s.io "g" is invalid: spec.schedulingPolicy{words}',
    )


@only("1.36")
async def test_1_36_drops_the_priority_of_a_pod_group(server: Server, namespace: str) -> None:
    """Its gate is off, so it goes without a word."""
    answer = await send(
        server.api, "POST", podgroups(server, namespace), group(priorityClassName="nowhere"), fieldValidation="Strict"
    )
    assert (answer.status, warnings_of(answer)) == (201, [])
    assert not answer.body["spec"].keys() & {"priorityClassName", "priority"}


MIN_COUNT = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}


@only("1.37")
async def test_1_37_changes_the_count_of_a_pod_group(server: Server, gang: str) -> None:
    patched = await server.api.patch(gang, MIN_COUNT)
    assert patched["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}


@only("1.36")
async def test_1_36_keeps_the_count_of_a_pod_group(server: Server, gang: str) -> None:
    await invalid(
        server.api.patch(gang, MIN_COUNT),
        saying=["spec.schedulingPolicy: Invalid value: ", "field is immutable"],
        causes=[("FieldValueInvalid", "spec.schedulingPolicy")],
    )


SWITCHED = {
    "1.37": [
        ("FieldValueInvalid", "spec.schedulingPolicy.basic"),
        ("FieldValueInvalid", "spec.schedulingPolicy.gang"),
    ],
    "1.36": [("FieldValueInvalid", "spec.schedulingPolicy")],
}


@only("1.36", "1.37")
async def test_immutable_fields_of_a_pod_group_are_refused(server: Server, gang: str, shapes: Shapes) -> None:
    # A gang stays a gang.
    await invalid(
        server.api.patch(gang, {"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}}),
        causes=SWITCHED[server.minor.name],
    )

    # A pod group stays with its template.
    ((field, _),) = shapes.reference("w", "h").items()
    await invalid(
        server.api.patch(gang, {"spec": shapes.reference("w", "h")}),
        saying="field is immutable",
        causes=[("FieldValueInvalid", f"spec.{field}")],
    )

    # The status of a pod group is written alone.
    condition = {
        "type": "PodGroupScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patched = await server.api.patch(f"{gang}/status", {"status": {"conditions": [condition]}})
    assert patched["status"]["conditions"] == [condition]


@only("1.36", "1.37")
async def test_metadata_of_a_pod_group_is_not_written_with_its_status(server: Server, gang: str) -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    metadata = {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": None}
    written = await server.api.patch(f"{gang}/status", {"metadata": metadata, "status": {"conditions": [condition]}})
    assert written["status"]["conditions"] == [condition]
    left = [written["metadata"].get(field) for field in metadata]
    assert left == [None, None, [PROTECTION]]


@only("1.36", "1.37")
async def test_a_pod_group_without_pods_is_deleted_at_once(server: Server, gang: str) -> None:
    await server.api.delete(gang)
    await gone(server.api, gang)


@only("1.36", "1.37")
async def test_a_pod_group_with_pods_is_deleted_after_them(server: Server, namespace: str) -> None:
    async def deleted() -> Object:
        """One that outlives its deletion; the controller that removes the finalizer looks at pods in its cache."""
        name = f"g-{secrets.token_hex(2)}"
        await server.api.create(podgroups(server, namespace), group(name))
        await create_pod(server, namespace, pod(name, pod_spec(schedulingGroup={"podGroupName": name})))
        await server.api.delete(podgroups(server, namespace, name))
        # It has seen another deletion through by now.
        later = f"{name}-later"
        await server.api.create(podgroups(server, namespace), group(later))
        await server.api.delete(podgroups(server, namespace, later))
        await gone(server.api, podgroups(server, namespace, later))
        return await server.api.get(podgroups(server, namespace, name))

    metadata = (await wait_for(deleted, "a group to outlive its deletion", tolerate=(ApiFailure,)))["metadata"]
    assert metadata["finalizers"] == [PROTECTION]
    assert metadata["deletionTimestamp"]
    await server.api.delete(pods(namespace, metadata["name"]))
    await gone(server.api, podgroups(server, namespace, metadata["name"]))
