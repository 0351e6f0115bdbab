"""Workloads and PodGroups: words and outcomes are those that kube-apiserver 1.35.4, 1.36.3 and 1.37.1 gave."""

from __future__ import annotations

from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object
from tests.rows import each
from tests.sandbox.asking import create, patch

WORKLOADS, GROUPS = "workloads.scheduling.k8s.io", "podgroups.scheduling.k8s.io"


def templates(**counts: int) -> Object:
    return {
        "podGroupTemplates": [
            {"name": name, "schedulingPolicy": {"gang": {"minCount": count}}} for name, count in counts.items()
        ]
    }


def group(minor: str) -> Object:
    reference: Object = {"workloadRef": {"workloadName": "w", "templateName": "a"}}
    if minor == "1.36":
        reference = {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "a"}}}
    return {"schedulingPolicy": {"gang": {"minCount": 2}}, **reference}


async def test_on_1_37_templates_may_change_their_order() -> None:
    api = Api("1.37")
    await create(api, WORKLOADS, spec=templates(a=2, b=2))
    changed = await patch(api, WORKLOADS, {"spec": templates(b=2, a=3)})
    assert [template["name"] for template in changed["spec"]["podGroupTemplates"]] == ["b", "a"]


async def test_a_groups_priority_is_that_of_its_class() -> None:
    api = Api("1.37")
    await create(api, "priorityclasses.scheduling.k8s.io", "high", value=1000)
    created = await create(api, GROUPS, spec={**group("1.37"), "priorityClassName": "high"})
    assert created["spec"]["priority"] == 1000


@each("minor", ["1.37", "1.36"])
async def test_fields_of_disabled_feature_gates_are_dropped(minor: str) -> None:
    api = Api(minor)
    await create(api, WORKLOADS, "w", spec=templates(a=2))
    gated = {"schedulingConstraints": {"topology": [{"key": "rack"}]}, "resourceClaims": [{"name": "a"}]}
    created = await create(api, GROUPS, spec={**group(minor), **gated})
    assert not gated.keys() & created["spec"].keys()
