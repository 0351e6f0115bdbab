"""Workloads and PodGroups: words and outcomes are those that kube-apiserver 1.35.4, 1.36.3 and 1.37.1 gave."""

from __future__ import annotations

from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object
from tests.rows import each
from tests.sandbox.asking import create, messages, patch, patch_refused, refused

WORKLOADS, GROUPS = "workloads.scheduling.k8s.io", "podgroups.scheduling.k8s.io"
NEWER = ("1.37", "1.36")
OTHER_PRIORITY = (
    "priority set in the pod group (7) must match the priority computed (0) based on the priority class set in the spec"
)


def templates(**counts: int) -> Object:
    return {
        "podGroupTemplates": [
            {"name": name, "schedulingPolicy": {"gang": {"minCount": count}}} for name, count in counts.items()
        ]
    }


def group(minor: str, workload: str = "w", template: str = "a") -> Object:
    if minor == "1.37":
        reference: Object = {"workloadRef": {"workloadName": workload, "templateName": template}}
    else:
        names = {"workloadName": workload, "podGroupTemplateName": template}
        reference = {"podGroupTemplateRef": {"workload": names}}
    return {"schedulingPolicy": {"gang": {"minCount": 2}}, **reference}


async def test_templates_with_the_same_name_are_refused() -> None:
    twice = {"podGroupTemplates": [*templates(a=1)["podGroupTemplates"]] * 2}
    value = '{"name":"a","schedulingPolicy":{"gang":{"minCount":1}},"schedulingConstraints":null}'
    error = await refused(Api("1.37"), WORKLOADS, spec=twice)
    assert messages(error) == [f"spec.podGroupTemplates[1]: Duplicate value: {value}"]


async def test_on_1_37_templates_change_in_number_of_pods_only() -> None:
    api = Api("1.37")
    await create(api, WORKLOADS, spec=templates(a=2, b=2))
    changed = await patch(api, WORKLOADS, {"spec": templates(b=2, a=3)})
    assert [each["name"] for each in changed["spec"]["podGroupTemplates"]] == ["b", "a"]
    for spec, words in (
        (templates(a=3), "spec.podGroupTemplates: Forbidden: item may not be removed"),
        (templates(a=3, b=2, c=1), "spec.podGroupTemplates[2]: Forbidden: item may not be added"),
    ):
        assert messages(await patch_refused(api, WORKLOADS, {"spec": spec})) == [words]


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
    await create(api, WORKLOADS, "w", spec=templates(a=2))
    gated = {"schedulingConstraints": {"topology": [{"key": "rack"}]}, "resourceClaims": [{"name": "a"}]}
    created = await create(api, GROUPS, spec={**group(minor), **gated})
    assert not gated.keys() & created["spec"].keys()
    if minor == "1.36":
        assert (
            "priorityClassName"
            not in (await create(api, GROUPS, "y", spec={**group(minor), "priorityClassName": "nope"}))["spec"]
        )
