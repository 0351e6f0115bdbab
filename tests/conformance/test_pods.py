"""Pods: what is filled in, what stays as it is, binding, and deletion that waits for a node."""

import secrets
from collections.abc import AsyncIterator

import pytest

from tests.conformance.answers import forbidden, invalid, not_found, send
from tests.conformance.grounds import Server
from tests.conformance.objects import create_pod, names_of, pod, pod_spec, pods
from tests.controlplane.api import path_of

NODES = path_of("v1", "nodes")


@pytest.fixture
async def node(server: Server) -> AsyncIterator[str]:
    """A node without a machine: nothing ever stops a pod on it."""
    name = f"conformance-{secrets.token_hex(3)}"
    await server.api.create(NODES, {"metadata": {"name": name}})
    yield name
    await server.api.delete(f"{NODES}/{name}")


@pytest.fixture
async def bound(server: Server, namespace: str, node: str) -> AsyncIterator[str]:
    """The path of a pod on the node."""
    await create_pod(server, namespace, pod("a", pod_spec(nodeName=node)))
    path = pods(namespace, "a")
    yield path
    await send(server.api, "DELETE", path, {"gracePeriodSeconds": 0})


async def test_a_pod_is_defaulted(server: Server, namespace: str) -> None:
    created = await create_pod(
        server, namespace, pod("a", {"containers": [{"name": "c", "image": "i"}], "schedulerName": "x"})
    )
    spec = created["spec"]
    expected = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
        "securityContext": {},
        "serviceAccountName": "default",
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert {key: spec.get(key) for key in expected} == expected
    (container,) = spec["containers"]
    expected = {
        "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {},
    }
    assert {key: container.get(key) for key in expected} == expected
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert created["metadata"]["generation"] == 1


async def test_only_mutable_fields_of_a_pod_are_changed(server: Server, namespace: str) -> None:
    # The spec of a pod stays.
    await create_pod(server, namespace, pod())
    await invalid(
        server.api.patch(pods(namespace, "a"), {"spec": {"schedulerName": "other"}}),
        saying="spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,",
        causes=[("FieldValueForbidden", "spec")],
    )

    # An image may change.
    path = "/spec/containers/0/image"
    patched = await server.api.patch(pods(namespace, "a"), [{"op": "replace", "path": path, "value": "j"}], kind="json")
    assert patched["spec"]["containers"][0]["image"] == "j"
    assert patched["metadata"]["generation"] == 2

    # A priority class must be there.
    await forbidden(
        create_pod(server, namespace, pod("b", pod_spec(priorityClassName="nowhere"))),
        'pods "b" is forbidden: no PriorityClass with name nowhere was found',
    )


async def test_pods_are_selected_by_node_and_phase(server: Server, bound: str, node: str) -> None:
    path = bound.rpartition("/")[0]
    assert names_of(await server.api.list(path, fieldSelector=f"spec.nodeName={node}")) == ["a"]
    assert names_of(await server.api.list(path, fieldSelector="spec.nodeName=")) == []
    assert names_of(await server.api.list(path, fieldSelector="status.phase=Pending")) == ["a"]
    assert names_of(await server.api.list(path, fieldSelector="status.phase!=Pending")) == []


async def test_a_pod_without_a_node_is_deleted_at_once(server: Server, namespace: str) -> None:
    await create_pod(server, namespace, pod())
    answer = await server.api.delete(pods(namespace, "a"))
    assert answer["kind"] == "Pod"
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 0
    await not_found(server.api.get(pods(namespace, "a")))


async def test_a_pod_on_a_node_is_deleted_after_its_grace_period(server: Server, bound: str) -> None:
    # A pod on a node is deleted in its own time.
    answer = await server.api.delete(bound)
    metadata = (await server.api.get(bound))["metadata"]
    assert answer["metadata"]["deletionTimestamp"] == metadata["deletionTimestamp"]
    assert metadata["deletionGracePeriodSeconds"] == 30
    assert metadata["generation"] == 2
    assert metadata["deletionTimestamp"] > metadata["creationTimestamp"]

    # The time can be shortened and not lengthened.
    async def grace(seconds: int) -> int:
        answer = await server.api.delete(bound, grace=seconds)
        return int(answer["metadata"]["deletionGracePeriodSeconds"])

    assert await grace(20) == 20
    assert await grace(5) == 5
    assert await grace(60) == 5

    # Without grace it is gone.
    await server.api.delete(bound)
    await server.api.delete(bound, grace=0)
    await not_found(server.api.get(bound))


async def test_a_finished_pod_is_deleted_at_once(server: Server, bound: str) -> None:
    await server.api.patch(f"{bound}/status", {"status": {"phase": "Succeeded"}})
    await server.api.delete(bound)
    await not_found(server.api.get(bound))


async def test_a_pod_is_evicted(server: Server, bound: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    # A dry run of the request or of the deletion deletes nothing.
    for options, parameters in (({}, {"dryRun": "All"}), ({"dryRun": ["All"]}, {})):
        dry = {**eviction, "deleteOptions": {"gracePeriodSeconds": 5, **options}}
        answer = await send(server.api, "POST", f"{bound}/eviction", dry, **parameters)
        assert (answer.status, answer.body["status"]) == (201, "Success")
        assert "deletionTimestamp" not in (await server.api.get(bound))["metadata"]

    answer = await send(server.api, "POST", f"{bound}/eviction", eviction)
    assert (answer.status, answer.body["status"]) == (201, "Success")
    pod = await server.api.get(bound)
    assert pod["metadata"]["deletionTimestamp"]
    (condition,) = (each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget")
    assert condition["status"] == "True"
    assert (condition["reason"], condition["message"]) == ("EvictionByEvictionAPI", "Eviction API: evicting")


async def test_an_eviction_is_of_one_pod(server: Server, bound: str) -> None:
    metadata = (await server.api.get(bound))["metadata"]
    for eviction, status, message in (
        (
            {"metadata": {"name": "b"}},
            400,
            "name in URL does not match name in Eviction object",
        ),
        (
            {"metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"uid": "x"}}},
            409,
            (
                f'Operation cannot be fulfilled on Pod "a": the UID in the precondition (x) does not match the UID in '
                f"record ({metadata['uid']}). The object might have been deleted and then recreated"
            ),
        ),
    ):
        answer = await send(server.api, "POST", f"{bound}/eviction", eviction)
        assert (answer.status, answer.body["message"]) == (status, message)
    assert (await server.api.get(bound))["metadata"] == metadata
