"""Jobs: words and outcomes are those of real API servers."""

from __future__ import annotations

from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object, copy
from tests.rows import each
from tests.sandbox.asking import create, messages, patch, patch_refused

JOBS = "jobs.batch"
MINORS = ("1.37", "1.36", "1.35")
POD: Object = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
REFERENCES = {
    "1.37": ("schedulingGroup", {"podGroupName": "g"}),
    "1.36": ("schedulingGroup", {"podGroupName": "g"}),
    "1.35": ("workloadRef", {"name": "w", "podGroup": "g"}),
}


def job(pod: Object | None = None, **spec: object) -> Object:
    return {"template": {"spec": {**copy(POD), **(pod or {})}}, **spec}


async def test_a_new_job_is_defaulted() -> None:
    created = await create(Api(), JOBS, spec=job())
    uid = created["metadata"]["uid"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": uid,
        "job-name": "x",
    }
    assert created["metadata"]["labels"] == labels
    assert created["status"] == {}
    assert created["spec"] == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "manualSelector": False,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "resources": {},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                        "imagePullPolicy": "Always",
                    }
                ],
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst",
                "securityContext": {},
                "schedulerName": "default-scheduler",
            },
        },
    }


async def test_a_generated_job_name_is_in_the_labels() -> None:
    created = await create(Api(), JOBS, "", metadata={"generateName": "run-"}, spec=job())
    assert created["metadata"]["name"].startswith("run-")
    assert created["spec"]["template"]["metadata"]["labels"]["job-name"] == created["metadata"]["name"]


@each("minor", MINORS)
async def test_the_reference_is_kept_with_its_gate_and_dropped_without(minor: str) -> None:
    field, reference = REFERENCES[minor]
    kept = await create(Api(minor), JOBS, spec=job({field: reference}))
    assert kept["spec"]["template"]["spec"][field] == reference
    dropped = await create(Api(minor, gates={"GenericWorkload": False}), JOBS, spec=job({field: reference}))
    assert field not in dropped["spec"]["template"]["spec"]


@each("minor", MINORS)
@each("suspend", [False, True])
async def test_the_reference_of_a_job_is_immutable(minor: str, suspend: bool) -> None:
    field, reference = REFERENCES[minor]
    api = Api(minor)
    await create(api, JOBS, spec=job({field: reference}, suspend=suspend))
    error = await patch_refused(api, JOBS, {"spec": {"template": {"spec": {field: None}}}})
    (words,) = messages(error)
    path = "spec.template.spec" if suspend and minor != "1.35" else "spec.template"
    assert words.startswith(f"{path}: Invalid value: ")
    assert words.endswith(": field is immutable")


DIRECTIVES: list[Object] = [
    {"metadata": {"labels": {"l": "1"}}},
    {"metadata": {"annotations": {"a": "1"}}},
    {"spec": {"nodeSelector": {"n": "1"}}},
    {"spec": {"tolerations": [{"key": "t", "operator": "Exists"}]}},
    {"spec": {"schedulingGates": [{"name": "example.com/g"}]}},
]


@each("minor", MINORS)
@each("change", DIRECTIVES, ids=["labels", "annotations", "nodeSelector", "tolerations", "gates"])
async def test_scheduling_directives_are_mutable_only_while_suspended(minor: str, change: Object) -> None:
    api = Api(minor)
    await create(api, JOBS, spec=job(suspend=True))
    await create(api, JOBS, "running", spec=job())
    patched = await patch(api, JOBS, {"spec": {"template": change}})
    ((section, fields),) = change.items()
    assert patched["spec"]["template"][section].items() >= (fields.items() if section == "spec" else set())
    error = await patch_refused(api, JOBS, {"spec": {"template": change}}, "running")
    assert [words.partition(":")[0] for words in messages(error)] == ["spec.template"]


@each(("minor", "allowed"), [("1.37", True), ("1.36", True), ("1.35", False)])
async def test_resources_are_mutable_while_suspended_since_1_36(minor: str, allowed: bool) -> None:
    api = Api(minor)
    await create(api, JOBS, spec=job(suspend=True))
    containers = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]
    change = {"spec": {"template": {"spec": {"containers": containers}}}}
    if allowed:
        patched = await patch(api, JOBS, change)
        assert patched["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    else:
        assert (await patch_refused(api, JOBS, change)).code == 422


@each(
    ("change", "words"),
    [
        (
            {"completions": 3},
            "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism",
        ),
        ({"completionMode": "NonIndexed"}, 'spec.completionMode: Invalid value: "NonIndexed": field is immutable'),
        ({"managedBy": "a.b/c"}, 'spec.managedBy: Invalid value: "a.b/c": field is immutable'),
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex: Invalid value: 1: field is immutable"),
    ],
)
async def test_immutable_fields_of_a_job_are_refused(change: Object, words: str) -> None:
    api = Api()
    await create(api, JOBS, spec=job(completionMode="Indexed", completions=2, parallelism=2))
    assert messages(await patch_refused(api, JOBS, {"spec": change})) == [words]
    grown = await patch(api, JOBS, {"spec": {"completions": 3, "parallelism": 3}})
    assert (grown["spec"]["completions"], grown["metadata"]["generation"]) == (3, 2)


async def test_on_1_36_the_parallelism_of_a_gang_is_immutable() -> None:
    api = Api("1.36")
    gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    await create(api, "podgroups.scheduling.k8s.io", "g", spec=gang)
    await create(api, "podgroups.scheduling.k8s.io", "b", spec={"schedulingPolicy": {"basic": {}}})
    for name in ("g", "b"):
        await create(api, JOBS, name, spec=job({"schedulingGroup": {"podGroupName": name}}))
    error = await patch_refused(api, JOBS, {"spec": {"parallelism": 3}}, "g")
    assert (error.code, error.message) == (
        403,
        'jobs.batch "g" is forbidden: cannot change parallelism for a Job referencing gang-scheduled PodGroup "g"',
    )
    assert (await patch(api, JOBS, {"spec": {"parallelism": 3}}, "b"))["spec"]["parallelism"] == 3


@each("minor", ["1.37", "1.35"])
async def test_on_other_minors_the_parallelism_of_a_gang_is_mutable(minor: str) -> None:
    api = Api(minor)
    field, reference = REFERENCES[minor]
    await create(api, JOBS, spec=job({field: reference}))
    assert (await patch(api, JOBS, {"spec": {"parallelism": 3}}))["spec"]["parallelism"] == 3
