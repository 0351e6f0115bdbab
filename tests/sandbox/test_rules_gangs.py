"""Workloads and PodGroups: words and outcomes are those that kube-apiserver 1.35.4, 1.36.3 and 1.37.1 gave."""

from __future__ import annotations

from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object
from tests.rows import each
from tests.sandbox.asking import create, messages, patch, patch_refused, refused

WORKLOADS, GROUPS = "workloads.scheduling.k8s.io", "podgroups.scheduling.k8s.io"
NEWER = ("1.37", "1.36")
MINORS = (*NEWER, "1.35")
OTHER_PRIORITY = (
    "priority set in the pod group (7) must match the priority computed (0) based on the priority class set in the spec"
)


def templates(minor: str, **counts: int) -> Object:
    names = {"1.35": ("podGroups", "policy")}
    field, policy = names.get(minor, ("podGroupTemplates", "schedulingPolicy"))
    return {field: [{"name": name, policy: {"gang": {"minCount": count}}} for name, count in counts.items()]}


def group(minor: str, workload: str = "w", template: str = "a") -> Object:
    if minor == "1.37":
        reference: Object = {"workloadRef": {"workloadName": workload, "templateName": template}}
    else:
        names = {"workloadName": workload, "podGroupTemplateName": template}
        reference = {"podGroupTemplateRef": {"workload": names}}
    return {"schedulingPolicy": {"gang": {"minCount": 2}}, **reference}


@each("minor", MINORS)
async def test_a_workload_with_nine_templates_is_refused(minor: str) -> None:
    spec = templates(minor, **{f"t{index}": 1 for index in range(9)})
    error = await refused(Api(minor), WORKLOADS, spec=spec)
    assert messages(error) == [f"spec.{next(iter(spec))}: Too many: 9: must have at most 8 items"]


@each(
    ("minor", "words"),
    [
        ("1.37", "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: Required value"),
        ("1.36", "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: Required value"),
        ("1.35", "spec.podGroups[0].policy.gang.minCount: Invalid value: 0: must be greater than zero"),
    ],
)
async def test_a_gang_with_a_min_count_below_one_is_refused(minor: str, words: str) -> None:
    assert messages(await refused(Api(minor), WORKLOADS, spec=templates(minor, a=0))) == [words]


@each(
    ("minor", "words"),
    [
        ("1.37", 'spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`'),
        ("1.36", "spec.podGroupTemplates: Required value"),
        ("1.35", "spec.podGroups: Required value: must have at least one item"),
    ],
)
async def test_a_workload_without_templates_is_refused(minor: str, words: str) -> None:
    assert messages(await refused(Api(minor), WORKLOADS, spec={})) == [words]


async def test_templates_with_the_same_name_are_refused() -> None:
    twice = {"podGroupTemplates": [*templates("1.37", a=1)["podGroupTemplates"]] * 2}
    value = '{"name":"a","schedulingPolicy":{"gang":{"minCount":1}},"schedulingConstraints":null}'
    error = await refused(Api("1.37"), WORKLOADS, spec=twice)
    assert messages(error) == [f"spec.podGroupTemplates[1]: Duplicate value: {value}"]


@each(
    ("policy", "words"),
    [
        ({}, '"": must specify one of: `basic`, `gang`'),
        ({"basic": {}, "gang": {"minCount": 1}}, '"{basic, gang}": must specify exactly one of: `basic`, `gang`'),
    ],
)
async def test_a_policy_with_none_or_two_kinds_is_refused(policy: Object, words: str) -> None:
    error = await refused(Api("1.37"), GROUPS, spec={"schedulingPolicy": policy})
    assert messages(error) == [f"spec.schedulingPolicy: Invalid value: {words}"]


async def test_on_1_37_templates_change_in_number_of_pods_only() -> None:
    api = Api("1.37")
    await create(api, WORKLOADS, spec=templates("1.37", a=2, b=2))
    changed = await patch(api, WORKLOADS, {"spec": templates("1.37", b=2, a=3)})
    assert [each["name"] for each in changed["spec"]["podGroupTemplates"]] == ["b", "a"]
    for spec, words in (
        (templates("1.37", a=3), "spec.podGroupTemplates: Forbidden: item may not be removed"),
        (templates("1.37", a=3, b=2, c=1), "spec.podGroupTemplates[2]: Forbidden: item may not be added"),
    ):
        assert messages(await patch_refused(api, WORKLOADS, {"spec": spec})) == [words]


async def test_on_1_37_the_policy_of_a_group_is_immutable() -> None:
    api = Api("1.37")
    await create(api, GROUPS, spec=group("1.37"))
    error = await patch_refused(api, GROUPS, {"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}})
    assert messages(error) == [
        "spec.schedulingPolicy.basic: Invalid value: null: field is immutable",
        "spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set",
    ]
    changed = await patch(api, GROUPS, {"spec": {"schedulingPolicy": {"gang": {"minCount": 7}}}})
    assert changed["spec"]["schedulingPolicy"] == {"gang": {"minCount": 7}}


@each(("minor", "path"), [("1.36", "spec.podGroupTemplates"), ("1.35", "podGroups")])
async def test_before_1_37_templates_are_immutable(minor: str, path: str) -> None:
    api = Api(minor)
    await create(api, WORKLOADS, spec=templates(minor, a=2))
    (words,) = messages(await patch_refused(api, WORKLOADS, {"spec": templates(minor, a=3)}))
    assert words.startswith(f"{path}: Invalid value: ")
    assert words.endswith(": field is immutable")


@each("minor", NEWER)
async def test_a_podgroup_has_its_finalizer_and_an_empty_status(minor: str) -> None:
    api = Api(minor)
    await create(api, WORKLOADS, "w", spec=templates(minor, a=2))
    created = await create(api, GROUPS, spec=group(minor), status={"conditions": [{"type": "X"}]})
    assert created["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    assert created["status"] == {}
    expected = {"disruptionMode": {"single": {}}, "priority": 0} if minor == "1.37" else {"disruptionMode": "Pod"}
    assert created["spec"] == {**group(minor), **expected}


async def test_on_1_37_a_group_can_be_created_before_its_workload() -> None:
    assert await create(Api("1.37"), GROUPS, spec=group("1.37", workload="nope"))


async def test_on_1_36_a_group_needs_its_workload() -> None:
    api = Api("1.36")
    error = await refused(api, GROUPS, spec=group("1.36"))
    assert (error.code, error.message) == (
        403,
        'podgroups.scheduling.k8s.io "x" is forbidden: PodGroup rejected: Workload "w" not found',
    )
    await create(api, WORKLOADS, "w", spec=templates("1.36", a=2))
    error = await refused(api, GROUPS, spec=group("1.36", template="zz"))
    assert error.message.endswith('PodGroup rejected: PodGroupTemplate "zz" not found in Workload "w"')
    assert await create(api, GROUPS, spec=group("1.36"))


async def test_a_groups_priority_is_that_of_its_class() -> None:
    api = Api("1.37")
    await create(api, "priorityclasses.scheduling.k8s.io", "high", value=1000)
    created = await create(api, GROUPS, spec={**group("1.37"), "priorityClassName": "high"})
    assert created["spec"]["priority"] == 1000
    for fields, words in (
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        ({"priority": 7}, OTHER_PRIORITY),
    ):
        error = await refused(api, GROUPS, "y", spec={**group("1.37"), **fields})
        assert (error.code, error.message) == (403, f'podgroups.scheduling.k8s.io "y" is forbidden: {words}')


@each("minor", NEWER)
async def test_fields_of_disabled_feature_gates_are_dropped(minor: str) -> None:
    api = Api(minor)
    await create(api, WORKLOADS, "w", spec=templates(minor, a=2))
    gated = {"schedulingConstraints": {"topology": [{"key": "rack"}]}, "resourceClaims": [{"name": "a"}]}
    created = await create(api, GROUPS, spec={**group(minor), **gated})
    assert not gated.keys() & created["spec"].keys()
    if minor == "1.36":
        assert (
            "priorityClassName"
            not in (await create(api, GROUPS, "y", spec={**group(minor), "priorityClassName": "nope"}))["spec"]
        )
