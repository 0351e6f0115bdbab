"""Pods: words and outcomes are those of real API servers."""

from __future__ import annotations

from gangctl.api.objects import copy
from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object
from tests.rows import each
from tests.sandbox.asking import create, messages, patch, patch_refused, refused

PODS, CLASSES = "pods", "priorityclasses.scheduling.k8s.io"
CONTAINER: Object = {"name": "c", "image": "i"}
FIXED = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod(**spec: object) -> Object:
    return {"containers": [copy(CONTAINER)], **spec}


@each(
    ("image", "policy"),
    [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("i:v1", "IfNotPresent"),
        ("host:5000/i", "Always"),
        ("host:5000/i:v1", "IfNotPresent"),
        (f"i@sha256:{'a' * 64}", "IfNotPresent"),
        (f"i:v1@sha256:{'a' * 64}", "IfNotPresent"),
        (f"i:latest@sha256:{'a' * 64}", "Always"),
    ],
)
async def test_images_without_a_tag_are_pulled_always(image: str, policy: str) -> None:
    created = await create(Api(), PODS, spec=pod(containers=[{"name": "c", "image": image}]))
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


@each(
    ("resources", "quality", "requests"),
    [
        ({"limits": {"cpu": 1}}, "Burstable", {"cpu": "1"}),
        ({"limits": {"cpu": "1000m", "memory": "1Gi"}}, "Guaranteed", {"cpu": "1", "memory": "1Gi"}),
        (
            {"requests": {"cpu": 0.5}, "limits": {"cpu": 1, "memory": "1024Mi"}},
            "Burstable",
            {"cpu": "500m", "memory": "1Gi"},
        ),
        ({"limits": {"example.com/gpu": 1}}, "BestEffort", {"example.com/gpu": "1"}),
    ],
)
async def test_requests_default_to_limits_and_set_the_qos_class(
    resources: Object, quality: str, requests: Object
) -> None:
    created = await create(Api(), PODS, spec=pod(containers=[{**CONTAINER, "resources": resources}]))
    assert created["status"]["qosClass"] == quality
    assert created["spec"]["containers"][0]["resources"]["requests"] == requests


async def test_the_priority_is_that_of_the_class() -> None:
    api = Api()
    await create(api, CLASSES, "high", value=1000, preemptionPolicy="Never")
    created = await create(api, PODS, spec=pod(priorityClassName="high"))
    assert (created["spec"]["priority"], created["spec"]["preemptionPolicy"]) == (1000, "Never")
    system = await create(api, PODS, "s", spec=pod(priorityClassName="system-node-critical"))
    assert system["spec"]["priority"] == 2000001000


async def test_the_global_default_priority_class_is_applied() -> None:
    api = Api()
    await create(api, CLASSES, "usual", value=5, globalDefault=True)
    created = await create(api, PODS, spec=pod())
    assert (created["spec"]["priorityClassName"], created["spec"]["priority"]) == ("usual", 5)


async def test_a_pod_with_an_absent_account_is_forbidden() -> None:
    error = await refused(Api(), PODS, spec=pod(serviceAccountName="nope"))
    words = 'error looking up service account default/nope: serviceaccount "nope" not found'
    assert (error.code, error.message) == (403, f'pods "x" is forbidden: {words}')


async def test_a_pod_must_name_its_group() -> None:
    words = "spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"
    assert messages(await refused(Api("1.37"), PODS, spec=pod(schedulingGroup={}))) == [words]


async def test_a_gated_pod_has_a_condition() -> None:
    created = await create(Api(), PODS, spec=pod(schedulingGates=[{"name": "example.com/g"}]))
    (condition,) = created["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


@each(
    ("minor", "field", "reference"),
    [
        ("1.37", "schedulingGroup", {"podGroupName": "g"}),
        ("1.36", "schedulingGroup", {"podGroupName": "g"}),
        ("1.35", "workloadRef", {"name": "w", "podGroup": "g"}),
    ],
)
async def test_the_reference_is_dropped_without_its_gate(minor: str, field: str, reference: Object) -> None:
    off = Api(minor, gates={"GenericWorkload": False})
    assert field not in (await create(off, PODS, spec=pod(**{field: reference})))["spec"]


@each(
    "change",
    [
        {"priority": 5},
        {"nodeName": "n"},
        {"terminationGracePeriodSeconds": 5},
        {"containers": [{**CONTAINER, "args": ["x"]}]},
        {"nodeSelector": {"a": "b"}},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_immutable_fields_of_a_pod_are_refused(change: Object) -> None:
    api = Api()
    await create(api, PODS, spec=pod())
    (words,) = messages(await patch_refused(api, PODS, {"spec": change}))
    assert words == FIXED


async def test_mutable_fields_of_a_pod_are_changed() -> None:
    api = Api()
    created = await create(api, PODS, spec=pod(activeDeadlineSeconds=60))
    await patch(api, PODS, {"spec": {"containers": [{**CONTAINER, "image": "j"}]}})
    await patch(api, PODS, {"spec": {"activeDeadlineSeconds": 30}})
    tolerations = [*created["spec"]["tolerations"], {"key": "x", "operator": "Exists"}]
    await patch(api, PODS, {"spec": {"tolerations": tolerations}})
    error = await patch_refused(api, PODS, {"spec": {"containers": [CONTAINER, {"name": "d", "image": "i"}]}})
    assert messages(error) == [FIXED]


async def test_a_gated_pod_can_be_constrained_and_then_released() -> None:
    api = Api()
    await create(api, PODS, spec=pod(schedulingGates=[{"name": "example.com/g"}]))
    await patch(api, PODS, {"spec": {"nodeSelector": {"a": "b"}}})
    assert "schedulingGates" not in (await patch(api, PODS, {"spec": {"schedulingGates": None}}))["spec"]
    assert messages(await patch_refused(api, PODS, {"spec": {"nodeSelector": {"a": "c"}}})) == [FIXED]


@each(
    ("hard", "why"),
    [
        (
            {"requests.nvidia.com/gpu": "3"},
            "exceeded quota: q, requested: {0}=2, used: {0}=2, limited: {0}=3".format("requests.nvidia.com/gpu"),
        ),
        (
            {"memory": "96Gi", "cpu": "1500m", "pods": "2"},
            "exceeded quota: q, requested: cpu=1,memory=64Gi, used: cpu=1,memory=64Gi, limited: cpu=1500m,memory=96Gi",
        ),
        (
            {"limits.cpu": "9", "limits.memory": "1Ti"},
            "failed quota: q: must specify limits.cpu for: c",
        ),
        ({"requests.cpu": "2", "requests.nvidia.com/gpu": "4", "requests.ephemeral-storage": "0"}, ""),
    ],
)
async def test_a_quota_limits_what_pods_request(hard: Object, why: str) -> None:
    resources = {"requests": {"cpu": 1}, "limits": {"memory": "64Gi", "nvidia.com/gpu": 2}}
    asking = pod(containers=[{**CONTAINER, "resources": resources}])
    api = Api()
    await create(api, PODS, "first", spec=asking)
    await create(api, "resourcequotas", "q", spec={"hard": hard})
    if why:
        assert (await refused(api, PODS, spec=asking)).message == f'pods "x" is forbidden: {why}'
    else:
        await create(api, PODS, spec=asking)
