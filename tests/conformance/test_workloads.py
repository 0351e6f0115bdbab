"""Workloads in the API version of each minor."""

from tests.conformance.answers import invalid, send
from tests.conformance.gangs import Shapes
from tests.conformance.grounds import Server, only
from tests.conformance.objects import workloads
from tests.controlplane.api import Object, Objects
from tests.rows import each

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


async def test_a_workload_is_stored_as_written(server: Server, namespace: str, shapes: Shapes) -> None:
    # A workload is stored as written.
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

    # A template may be no gang.
    template = {"name": "g", shapes.policy: {"basic": {}}}
    created = await server.api.create(workloads(server, namespace), shapes.workload(template, name="basic"))
    assert created["spec"][shapes.templates] == [shapes.stored(template)]

    # A workload names its controller.
    controller = {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "a"}
    created = await server.api.create(
        workloads(server, namespace), shapes.workload(shapes.template(), name="owned", controllerRef=controller)
    )
    assert created["spec"]["controllerRef"] == controller


async def test_the_templates_of_a_workload_are_validated(server: Server, namespace: str, shapes: Shapes) -> None:
    # A workload has at most eight templates.
    nine = [shapes.template(f"t{index}") for index in range(9)]
    await server.api.create(workloads(server, namespace), shapes.workload(*nine[:8], name="eight"))
    await invalid(
        server.api.create(workloads(server, namespace), shapes.workload(*nine)),
        f'Workload.scheduling.k8s.io "w" is invalid: spec.{shapes.templates}: Too many: 9: must have at most 8 items',
        causes=[("FieldValueTooMany", f"spec.{shapes.templates}")],
    )

    # A workload has a template.
    await invalid(
        server.api.create(workloads(server, namespace), shapes.workload()),
        f'Workload.scheduling.k8s.io "w" is invalid: {NO_TEMPLATES[server.minor.name]}',
    )

    # A policy is one of two.
    both = {"name": "g", shapes.policy: {"gang": {"minCount": 1}, "basic": {}}}
    at = f"spec.{shapes.templates}[0].{shapes.policy}"
    await invalid(
        server.api.create(workloads(server, namespace), shapes.workload(both)),
        saying=[f"{at}: Invalid value: ", TWO_POLICIES[server.minor.name]],
        causes=[("FieldValueInvalid", at)],
    )

    # Templates have names of their own.
    at = f"spec.{DUPLICATE[server.minor.name]}"
    await invalid(
        server.api.create(workloads(server, namespace), shapes.workload(shapes.template(), shapes.template())),
        saying=f"{at}: Duplicate value: ",
        causes=[("FieldValueDuplicate", at)],
    )


NO_TEMPLATES = {
    "1.37": 'spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`',
    "1.36": "spec.podGroupTemplates: Required value",
    "1.35": "spec.podGroups: Required value: must have at least one item",
}


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


@each(
    ("fault", "policy"),
    [
        ("no-count", {"gang": {"minCount": 0}}),
        ("negative-count", {"gang": {"minCount": -1}}),
        ("name", {"basic": {}}),
        ("no-policy", {}),
    ],
)
async def test_a_template_is_validated(
    server: Server, namespace: str, shapes: Shapes, fault: str, policy: Object
) -> None:
    messages, name = TOLD[fault], "Bad_" if fault == "name" else "g"
    reason, field, words = messages.get(server.minor.name) or messages[""]
    at = f"spec.{shapes.templates}[0].{field}"
    await invalid(
        server.api.create(workloads(server, namespace), shapes.workload({"name": name, shapes.policy: policy})),
        f'Workload.scheduling.k8s.io "w" is invalid: {at}: {words}',
        causes=[(reason, at)],
    )


TWO_POLICIES = {
    "1.37": "must specify exactly one of: `basic`, `gang`",
    "1.36": "must specify exactly one of: `basic`, `gang`",
    "1.35": "exactly one of `basic`, `gang` is required, but multiple fields are set",
}


DUPLICATE = {"1.37": "podGroupTemplates[1]", "1.36": "podGroupTemplates[1]", "1.35": "podGroups[1].name"}


def count(shapes: Shapes, value: int) -> Objects:
    path = f"/spec/{shapes.templates}/0/{shapes.policy}/gang/minCount"
    return [{"op": "replace", "path": path, "value": value}]


@only("1.37")
async def test_1_37_changes_the_count_of_a_template(server: Server, workload: str, shapes: Shapes) -> None:
    # 1.37 changes the count of a template.
    patched = await server.api.patch(workload, count(shapes, 3), kind="json")
    assert patched["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 3}}

    # 1.37 changes the count by applying every template.
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
async def test_before_1_37_the_count_of_a_template_is_immutable(server: Server, workload: str, shapes: Shapes) -> None:
    await invalid(
        server.api.patch(workload, count(shapes, 3), kind="json"),
        saying=[f"{FROZEN[server.minor.name]}: Invalid value: ", "field is immutable"],
        causes=[("FieldValueInvalid", FROZEN[server.minor.name])],
    )


async def test_a_workload_keeps_a_spec(server: Server, workload: str) -> None:
    await invalid(server.api.patch(workload, {"spec": None}))


@each("names", ["g", "ghi"], ids=["remove", "add"])
async def test_the_list_of_templates_of_a_workload_is_immutable(
    server: Server, workload: str, shapes: Shapes, names: str
) -> None:
    removed, added = "Forbidden: item may not be removed", "Forbidden: item may not be added"
    words, causes = {
        ("1.37", "g"): (removed, [("FieldValueForbidden", "spec.podGroupTemplates")]),
        ("1.37", "ghi"): (added, [("FieldValueForbidden", "spec.podGroupTemplates[2]")]),
    }.get(
        (server.minor.name, names), ("field is immutable", [("FieldValueInvalid", FROZEN.get(server.minor.name, ""))])
    )
    templates = [shapes.template(name) for name in names]
    await invalid(server.api.patch(workload, {"spec": {shapes.templates: templates}}), saying=words, causes=causes)
