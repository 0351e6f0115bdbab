"""Gangs in the API version of each minor: references in pods and Jobs, Workloads, PodGroups."""

from typing import Any

import pytest

from tests.conformance.answers import refused, send, warnings_of
from tests.conformance.grounds import Server, only
from tests.conformance.objects import create_pod, gone, job, jobs, pod, pod_spec, podgroups, pods, workloads
from tests.controlplane.api import Object, Objects

PROTECTION = "scheduling.k8s.io/podgroup-protection"
REFERENCE = {
    "1.37": {"schedulingGroup": {"podGroupName": "g"}},
    "1.36": {"schedulingGroup": {"podGroupName": "g"}},
    "1.35": {"workloadRef": {"name": "w", "podGroup": "g"}},
}
OTHER_REFERENCE = {
    "1.37": {"workloadRef": {"name": "w", "podGroup": "g"}},
    "1.36": {"workloadRef": {"name": "w", "podGroup": "g"}},
    "1.35": {"schedulingGroup": {"podGroupName": "g"}},
}
# The list of groups in a Workload, and the policy in one of them.
TEMPLATES = {"1.37": "podGroupTemplates", "1.36": "podGroupTemplates", "1.35": "podGroups"}
POLICY = {"1.37": "schedulingPolicy", "1.36": "schedulingPolicy", "1.35": "policy"}
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


class Shapes:
    """Objects as a minor writes them."""

    def __init__(self, server: Server) -> None:
        self.minor = server.minor.name
        self.templates = TEMPLATES[self.minor]
        self.policy = POLICY[self.minor]

    def template(self, name: str = "g", count: int = 2, **fields: Any) -> Object:
        return {"name": name, self.policy: {"gang": {"minCount": count}}, **fields}

    def workload(self, *templates: Object, name: str = "w", **spec: Any) -> Object:
        return {"metadata": {"name": name}, "spec": {self.templates: list(templates), **spec}}

    def stored(self, template: Object) -> Object:
        """A template as it is read back: 1.36 began to write an empty field out."""
        return template if self.minor == "1.35" else {**template, "schedulingConstraints": None}

    def reference(self, workload: str, template: str) -> Object:
        """How a PodGroup names where it comes from."""
        if self.minor == "1.36":
            return {"podGroupTemplateRef": {"workload": {"workloadName": workload, "podGroupTemplateName": template}}}
        return {"workloadRef": {"workloadName": workload, "templateName": template}}


@pytest.fixture
def shapes(server: Server) -> Shapes:
    return Shapes(server)


def group(name: str = "g", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec}}


async def test_a_job_keeps_the_reference_of_its_minor(server: Server, namespace: str) -> None:
    reference = REFERENCE[server.minor.name]
    answer = await send(server.api, "POST", jobs(namespace), job("a", pod_spec(**reference)), fieldValidation="Strict")
    assert answer.status == 201
    assert answer.body["spec"]["template"]["spec"].items() >= reference.items()


async def test_a_job_loses_the_reference_of_another_minor(server: Server, namespace: str) -> None:
    ((field, value),) = OTHER_REFERENCE[server.minor.name].items()
    answer = await send(server.api, "POST", jobs(namespace), job("a", pod_spec(**{field: value})))
    assert answer.status == 201
    assert warnings_of(answer) == [f'unknown field "spec.template.spec.{field}"']
    assert field not in answer.body["spec"]["template"]["spec"]


BAD_REFERENCES: dict[str, tuple[Object, list[tuple[str, str]]]] = {
    minor: (
        {"schedulingGroup": {"podGroupName": "Bad_"}},
        [("FieldValueInvalid", "spec.template.spec.schedulingGroup.podGroupName")],
    )
    for minor in ("1.36", "1.37")
} | {
    "1.35": (
        {"workloadRef": {"name": "Bad_", "podGroup": "Bad_"}},
        [
            ("FieldValueInvalid", "spec.template.spec.workloadRef.name"),
            ("FieldValueInvalid", "spec.template.spec.workloadRef.podGroup"),
        ],
    )
}


async def test_a_reference_is_a_name(server: Server, namespace: str) -> None:
    reference, causes = BAD_REFERENCES[server.minor.name]
    await refused(server.api.create(jobs(namespace), job("a", pod_spec(**reference))), 422, "Invalid", causes=causes)


@only("1.36", "1.37")
async def test_a_reference_names_a_group(server: Server, namespace: str) -> None:
    field = "spec.template.spec.schedulingGroup.podGroupName"
    await refused(
        server.api.create(jobs(namespace), job("a", pod_spec(schedulingGroup={}))),
        422,
        "Invalid",
        f'Job.batch "a" is invalid: {field}: Invalid value: null: must specify one of: `podGroupName`',
    )


LOST = {"1.37": "spec.template.spec", "1.36": "spec.template.spec", "1.35": "spec.template"}


async def test_a_put_that_loses_the_reference_is_refused(server: Server, namespace: str) -> None:
    """What a controller does that was built against a release without the field."""
    reference = REFERENCE[server.minor.name]
    body = await server.api.create(jobs(namespace), job("a", pod_spec(**reference)))
    del body["metadata"]["resourceVersion"]
    for field in reference:
        del body["spec"]["template"]["spec"][field]
    lost = LOST[server.minor.name]
    await refused(
        server.api.update(jobs(namespace, "a"), body),
        422,
        "Invalid",
        saying=[f'Job.batch "a" is invalid: {lost}: Invalid value: ', ": field is immutable"],
        causes=[("FieldValueInvalid", lost)],
    )


async def test_a_reference_is_not_added_later(server: Server, namespace: str) -> None:
    await server.api.create(jobs(namespace), job())
    await refused(
        server.api.patch(jobs(namespace, "a"), {"spec": {"template": {"spec": REFERENCE[server.minor.name]}}}),
        422,
        "Invalid",
        saying="field is immutable",
    )


async def test_a_pod_keeps_its_reference(server: Server, namespace: str) -> None:
    reference = REFERENCE[server.minor.name]
    created = await create_pod(server, namespace, pod("a", pod_spec(**reference)))
    assert created["spec"].items() >= reference.items()
    await refused(
        server.api.patch(pods(namespace, "a"), {"spec": dict.fromkeys(reference)}),
        422,
        "Invalid",
        saying="spec: Forbidden: pod updates may not change fields other than",
    )


async def test_a_workload_is_stored_as_written(server: Server, namespace: str, shapes: Shapes) -> None:
    templates = [shapes.template("g"), shapes.template("h", 3)]
    answer = await send(
        server.api, "POST", workloads(server, namespace), shapes.workload(*templates), fieldValidation="Strict"
    )
    assert answer.status == 201
    created = answer.body
    assert (created["kind"], created["apiVersion"]) == ("Workload", server.gangs)
    assert created["spec"] == {shapes.templates: [shapes.stored(template) for template in templates]}
    assert "status" not in created
    assert "finalizers" not in created["metadata"]
    assert "generation" not in created["metadata"]


async def test_a_template_may_be_no_gang(server: Server, namespace: str, shapes: Shapes) -> None:
    template = {"name": "g", shapes.policy: {"basic": {}}}
    created = await server.api.create(workloads(server, namespace), shapes.workload(template))
    assert created["spec"][shapes.templates] == [shapes.stored(template)]


async def test_a_workload_says_whose_it_is(server: Server, namespace: str, shapes: Shapes) -> None:
    controller = {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "a"}
    created = await server.api.create(
        workloads(server, namespace), shapes.workload(shapes.template(), controllerRef=controller)
    )
    assert created["spec"]["controllerRef"] == controller


async def test_a_workload_has_at_most_eight_templates(server: Server, namespace: str, shapes: Shapes) -> None:
    nine = [shapes.template(f"t{index}") for index in range(9)]
    await server.api.create(workloads(server, namespace), shapes.workload(*nine[:8], name="eight"))
    await refused(
        server.api.create(workloads(server, namespace), shapes.workload(*nine)),
        422,
        "Invalid",
        f'Workload.scheduling.k8s.io "w" is invalid: spec.{shapes.templates}: Too many: 9: must have at most 8 items',
        causes=[("FieldValueTooMany", f"spec.{shapes.templates}")],
    )


NO_TEMPLATES = {
    "1.37": 'spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`',
    "1.36": "spec.podGroupTemplates: Required value",
    "1.35": "spec.podGroups: Required value: must have at least one item",
}


async def test_a_workload_has_a_template(server: Server, namespace: str, shapes: Shapes) -> None:
    await refused(
        server.api.create(workloads(server, namespace), shapes.workload()),
        422,
        "Invalid",
        f'Workload.scheduling.k8s.io "w" is invalid: {NO_TEMPLATES[server.minor.name]}',
    )


# 1.36 validates by declarations, and words things as they do: reason, field in the template, words.
NAME = ("FieldValueInvalid", "name", f'Invalid value: "Bad_": {LABEL}')
TOLD = {
    "no-count": {
        "1.35": ("FieldValueInvalid", "policy.gang.minCount", "Invalid value: 0: must be greater than zero"),
        "": ("FieldValueRequired", "schedulingPolicy.gang.minCount", "Required value"),
    },
    "negative-count": {
        "1.35": ("FieldValueInvalid", "policy.gang.minCount", "Invalid value: -1: must be greater than zero"),
        "": (
            "FieldValueInvalid",
            "schedulingPolicy.gang.minCount",
            "Invalid value: -1: must be greater than or equal to 1",
        ),
    },
    "name": {"1.35": NAME, "": NAME},
    "no-policy": {
        "1.35": ("FieldValueRequired", "policy", "Required value: exactly one of `basic`, `gang` is required"),
        "": ("FieldValueInvalid", "schedulingPolicy", 'Invalid value: "": must specify one of: `basic`, `gang`'),
    },
}


@pytest.mark.parametrize(
    ("fault", "policy"),
    [
        pytest.param("no-count", {"gang": {"minCount": 0}}, id="no-count"),
        pytest.param("negative-count", {"gang": {"minCount": -1}}, id="negative-count"),
        pytest.param("name", {"basic": {}}, id="name"),
        pytest.param("no-policy", {}, id="no-policy"),
    ],
)
async def test_a_template_is_validated(
    server: Server, namespace: str, shapes: Shapes, fault: str, policy: Object
) -> None:
    told, name = TOLD[fault], "Bad_" if fault == "name" else "g"
    reason, field, words = told.get(server.minor.name) or told[""]
    at = f"spec.{shapes.templates}[0].{field}"
    await refused(
        server.api.create(workloads(server, namespace), shapes.workload({"name": name, shapes.policy: policy})),
        422,
        "Invalid",
        f'Workload.scheduling.k8s.io "w" is invalid: {at}: {words}',
        causes=[(reason, at)],
    )


TWO_POLICIES = {
    "1.37": "must specify exactly one of: `basic`, `gang`",
    "1.36": "must specify exactly one of: `basic`, `gang`",
    "1.35": "exactly one of `basic`, `gang` is required, but multiple fields are set",
}


async def test_a_policy_is_one_of_two(server: Server, namespace: str, shapes: Shapes) -> None:
    both = {"name": "g", shapes.policy: {"gang": {"minCount": 1}, "basic": {}}}
    at = f"spec.{shapes.templates}[0].{shapes.policy}"
    await refused(
        server.api.create(workloads(server, namespace), shapes.workload(both)),
        422,
        "Invalid",
        saying=[f"{at}: Invalid value: ", TWO_POLICIES[server.minor.name]],
        causes=[("FieldValueInvalid", at)],
    )


DUPLICATE = {"1.37": "podGroupTemplates[1]", "1.36": "podGroupTemplates[1]", "1.35": "podGroups[1].name"}


async def test_templates_have_names_of_their_own(server: Server, namespace: str, shapes: Shapes) -> None:
    at = f"spec.{DUPLICATE[server.minor.name]}"
    await refused(
        server.api.create(workloads(server, namespace), shapes.workload(shapes.template(), shapes.template())),
        422,
        "Invalid",
        saying=f"{at}: Duplicate value: ",
        causes=[("FieldValueDuplicate", at)],
    )


@pytest.fixture
async def workload(server: Server, namespace: str, shapes: Shapes) -> str:
    """The path of a Workload with two templates, g and h."""
    body = shapes.workload(shapes.template("g"), shapes.template("h"))
    await server.api.create(workloads(server, namespace), body)
    return workloads(server, namespace, "w")


def count(shapes: Shapes, value: int) -> Objects:
    path = f"/spec/{shapes.templates}/0/{shapes.policy}/gang/minCount"
    return [{"op": "replace", "path": path, "value": value}]


@only("1.37")
async def test_1_37_changes_the_count_of_a_template(server: Server, workload: str, shapes: Shapes) -> None:
    patched = await server.api.patch(workload, count(shapes, 3), kind="json")
    assert patched["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 3}}


@only("1.37")
async def test_1_37_changes_the_count_by_applying_every_template(server: Server, workload: str, shapes: Shapes) -> None:
    body = {
        "apiVersion": server.gangs,
        "kind": "Workload",
        "spec": {"podGroupTemplates": [shapes.template("g", 4), shapes.template("h")]},
    }
    applied = await server.api.patch(workload, body, kind="apply", fieldManager="m", force=True)
    assert applied["spec"]["podGroupTemplates"] == [
        shapes.stored(shapes.template("g", 4)),
        shapes.stored(shapes.template("h")),
    ]


# 1.35 forgot where the list stands.
FROZEN = {"1.36": "spec.podGroupTemplates", "1.35": "podGroups"}


@only("1.35", "1.36")
async def test_before_1_37_the_count_of_a_template_stays(server: Server, workload: str, shapes: Shapes) -> None:
    await refused(
        server.api.patch(workload, count(shapes, 3), kind="json"),
        422,
        "Invalid",
        saying=[f"{FROZEN[server.minor.name]}: Invalid value: ", "field is immutable"],
        causes=[("FieldValueInvalid", FROZEN[server.minor.name])],
    )


@pytest.mark.parametrize("names", ["g", "ghi"], ids=["remove", "add"])
async def test_the_templates_of_a_workload_stay(server: Server, workload: str, shapes: Shapes, names: str) -> None:
    removed, added = "Forbidden: item may not be removed", "Forbidden: item may not be added"
    words, causes = {
        ("1.37", "g"): (removed, [("FieldValueForbidden", "spec.podGroupTemplates")]),
        ("1.37", "ghi"): (added, [("FieldValueForbidden", "spec.podGroupTemplates[2]")]),
    }.get(
        (server.minor.name, names), ("field is immutable", [("FieldValueInvalid", FROZEN.get(server.minor.name, ""))])
    )
    templates = [shapes.template(name) for name in names]
    await refused(
        server.api.patch(workload, {"spec": {shapes.templates: templates}}),
        422,
        "Invalid",
        saying=words,
        causes=causes,
    )


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
async def test_a_pod_group_is_protected_and_filled_in(server: Server, gang: str, shapes: Shapes) -> None:
    read = await server.api.get(gang)
    assert read["metadata"]["finalizers"] == [PROTECTION]
    assert read["status"] == {}
    assert read["spec"] == {
        **shapes.reference("w", "g"),
        "schedulingPolicy": {"gang": {"minCount": 2}},
        **FILLED[server.minor.name],
    }
    assert "generation" not in read["metadata"]


@only("1.36", "1.37")
async def test_a_pod_group_may_stand_alone(server: Server, namespace: str) -> None:
    created = await server.api.create(podgroups(server, namespace), group())
    assert created["spec"] == {
        **UNSET[server.minor.name],
        "schedulingPolicy": {"gang": {"minCount": 2}},
        **FILLED[server.minor.name],
    }


@only("1.36")
async def test_1_36_wants_the_workload_of_a_pod_group(server: Server, namespace: str, shapes: Shapes) -> None:
    await refused(
        server.api.create(podgroups(server, namespace), group(**shapes.reference("nowhere", "g"))),
        403,
        "Forbidden",
        'podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: Workload "nowhere" not found',
    )


@only("1.36")
async def test_1_36_wants_the_template_of_a_pod_group(
    server: Server, namespace: str, workload: str, shapes: Shapes
) -> None:
    assert workload
    await refused(
        server.api.create(podgroups(server, namespace), group(**shapes.reference("w", "nothing"))),
        403,
        "Forbidden",
        'podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: '
        'PodGroupTemplate "nothing" not found in Workload "w"',
    )


@only("1.37")
async def test_1_37_takes_a_pod_group_before_its_workload(server: Server, namespace: str, shapes: Shapes) -> None:
    reference = shapes.reference("nowhere", "g")
    created = await server.api.create(podgroups(server, namespace), group(**reference))
    assert created["spec"].items() >= reference.items()


@only("1.36", "1.37")
@pytest.mark.parametrize(
    ("policy", "words"),
    [
        pytest.param({"gang": {"minCount": 0}}, ".gang.minCount: Required value", id="no-count"),
        pytest.param({}, ': Invalid value: "": must specify one of: `basic`, `gang`', id="no-policy"),
    ],
)
async def test_a_pod_group_is_validated(server: Server, namespace: str, policy: Object, words: str) -> None:
    await refused(
        server.api.create(podgroups(server, namespace), group(schedulingPolicy=policy)),
        422,
        "Invalid",
        f'PodGroup.scheduling.k8s.io "g" is invalid: spec.schedulingPolicy{words}',
    )


@only("1.37")
async def test_1_37_wants_the_priority_class_of_a_pod_group(server: Server, namespace: str) -> None:
    await refused(
        server.api.create(podgroups(server, namespace), group(priorityClassName="nowhere")),
        403,
        "Forbidden",
        'podgroups.scheduling.k8s.io "g" is forbidden: no PriorityClass with name nowhere was found',
    )


@only("1.36")
async def test_1_36_drops_the_priority_of_a_pod_group(server: Server, namespace: str) -> None:
    """Its gate is off, so it goes without a word."""
    answer = await send(
        server.api,
        "POST",
        podgroups(server, namespace),
        group(priorityClassName="nowhere"),
        fieldValidation="Strict",
    )
    assert (answer.status, warnings_of(answer)) == (201, [])
    assert not answer.body["spec"].keys() & {"priorityClassName", "priority"}


@only("1.37")
async def test_1_37_takes_no_priority_without_its_class(server: Server, namespace: str) -> None:
    await refused(
        server.api.create(podgroups(server, namespace), group(priority=5)),
        403,
        "Forbidden",
        'podgroups.scheduling.k8s.io "g" is forbidden: priority set in the pod group (5) must match the priority '
        "computed (0) based on the priority class set in the spec",
    )


MIN_COUNT = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}


@only("1.37")
async def test_1_37_changes_the_count_of_a_pod_group(server: Server, gang: str) -> None:
    patched = await server.api.patch(gang, MIN_COUNT)
    assert patched["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}


@only("1.36")
async def test_1_36_keeps_the_count_of_a_pod_group(server: Server, gang: str) -> None:
    await refused(
        server.api.patch(gang, MIN_COUNT),
        422,
        "Invalid",
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
async def test_a_gang_stays_a_gang(server: Server, gang: str) -> None:
    await refused(
        server.api.patch(gang, {"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}}),
        422,
        "Invalid",
        causes=SWITCHED[server.minor.name],
    )


@only("1.36", "1.37")
async def test_a_pod_group_stays_with_its_template(server: Server, gang: str, shapes: Shapes) -> None:
    ((field, _),) = shapes.reference("w", "h").items()
    await refused(
        server.api.patch(gang, {"spec": shapes.reference("w", "h")}),
        422,
        "Invalid",
        saying="field is immutable",
        causes=[("FieldValueInvalid", f"spec.{field}")],
    )


@only("1.36", "1.37")
async def test_the_status_of_a_pod_group_has_whole_conditions(server: Server, gang: str) -> None:
    condition = {
        "type": "PodGroupScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patched = await server.api.patch(f"{gang}/status", {"status": {"conditions": [condition]}})
    assert patched["status"]["conditions"] == [condition]
    await refused(
        server.api.patch(f"{gang}/status", {"status": {"conditions": [{"type": "X", "status": "True"}]}}),
        422,
        "Invalid",
        causes=[
            ("FieldValueRequired", "status.conditions[0].lastTransitionTime"),
            ("FieldValueRequired", "status.conditions[0].reason"),
        ],
    )


@only("1.36", "1.37")
async def test_a_pod_group_without_pods_goes(server: Server, gang: str) -> None:
    await server.api.delete(gang)
    await gone(server.api, gang)


@only("1.36", "1.37")
async def test_a_pod_group_with_pods_stays_until_they_are_gone(server: Server, namespace: str, gang: str) -> None:
    await create_pod(server, namespace, pod("a", pod_spec(schedulingGroup={"podGroupName": "g"})))
    await server.api.delete(gang)
    # Whoever takes the finalizer off has seen another deletion through by now.
    await server.api.create(podgroups(server, namespace), group("later"))
    await server.api.delete(podgroups(server, namespace, "later"))
    await gone(server.api, podgroups(server, namespace, "later"))
    metadata = (await server.api.get(gang))["metadata"]
    assert metadata["finalizers"] == [PROTECTION]
    assert metadata["deletionTimestamp"]
    await server.api.delete(pods(namespace, "a"))
    await gone(server.api, gang)


RESIZED = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
LARGER = {"spec": {"completions": 3, "parallelism": 3}}


@pytest.fixture
async def ganged(server: Server, namespace: str) -> str:
    """The path of a Job of two pods whose group is there, where the minor has groups."""
    if server.minor.name != "1.35":
        await server.api.create(podgroups(server, namespace), group())
    await server.api.create(jobs(namespace), job("a", pod_spec(**REFERENCE[server.minor.name]), **RESIZED))
    return jobs(namespace, "a")


@only("1.35", "1.37")
async def test_a_ganged_job_can_be_resized(server: Server, ganged: str) -> None:
    patched = await server.api.patch(ganged, LARGER)
    assert patched["spec"]["parallelism"] == 3


@only("1.36")
async def test_1_36_does_not_resize_a_ganged_job(server: Server, ganged: str) -> None:
    await refused(
        server.api.patch(ganged, LARGER),
        403,
        "Forbidden",
        'jobs.batch "a" is forbidden: cannot change parallelism for a Job referencing gang-scheduled PodGroup "g"',
    )


@only("1.36")
async def test_1_36_resizes_a_job_whose_group_is_not_there(server: Server, namespace: str) -> None:
    await server.api.create(jobs(namespace), job("a", pod_spec(schedulingGroup={"podGroupName": "nowhere"}), **RESIZED))
    patched = await server.api.patch(jobs(namespace, "a"), LARGER)
    assert patched["spec"]["parallelism"] == 3
