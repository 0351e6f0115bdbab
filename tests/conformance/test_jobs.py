"""Jobs: what is filled in, what stays as it was, and what may change while a Job is suspended."""

import pytest

from tests.conformance.answers import invalid, send
from tests.conformance.grounds import Server
from tests.conformance.objects import job, jobs
from tests.controlplane.api import Object
from tests.rows import each

CONTROLLER = "batch.kubernetes.io/controller-uid"


@pytest.fixture
async def path(server: Server, namespace: str) -> str:
    """A suspended Job."""
    await server.api.create(jobs(namespace), job())
    return jobs(namespace, "a")


async def test_a_job_is_defaulted(server: Server, namespace: str) -> None:
    # A job is filled in.
    spec = (await server.api.create(jobs(namespace), job()))["spec"]
    expected = {
        "parallelism": 1,
        "completions": 1,
        "completionMode": "NonIndexed",
        "backoffLimit": 6,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "suspend": True,
    }
    assert spec.keys() == {*expected, "selector", "template"}
    assert {key: spec[key] for key in expected} == expected
    assert spec["template"]["spec"] == {
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
        "schedulerName": "nobody",
    }

    # A jobs selector is its uid and its pods are labelled.
    created = await server.api.create(jobs(namespace), job("b"))
    uid = created["metadata"]["uid"]
    labels = {CONTROLLER: uid, "batch.kubernetes.io/job-name": "b", "controller-uid": uid, "job-name": "b"}
    assert created["spec"]["selector"] == {"matchLabels": {CONTROLLER: uid}}
    assert created["spec"]["template"]["metadata"]["labels"] == labels
    assert created["metadata"]["labels"] == labels

    # Without completions parallelism may be anything.
    spec = (await server.api.create(jobs(namespace), job("c", parallelism=3)))["spec"]
    assert spec["parallelism"] == 3
    assert "completions" not in spec


async def test_the_name_of_a_job_becomes_a_label_and_is_validated(server: Server, namespace: str) -> None:
    await invalid(
        server.api.create(jobs(namespace), job("n" * 64)),
        saying=": must be no more than 63 bytes",
        causes=[("FieldValueInvalid", "spec.template.labels")],
    )


@each(
    ("spec", "words", "field"),
    [
        ({"completions": 5}, "Invalid value: 5: field is immutable", "completions"),
        ({"completionMode": "Indexed"}, 'Invalid value: "Indexed": field is immutable', "completionMode"),
    ],
)
async def test_immutable_fields_of_a_job_are_refused(
    server: Server, path: str, spec: Object, words: str, field: str
) -> None:
    await invalid(
        server.api.patch(path, {"spec": spec}),
        f'Job.batch "a" is invalid: spec.{field}: {words}',
        causes=[("FieldValueInvalid", f"spec.{field}")],
    )


# Since 1.36 the message names the changed half of the template.
TEMPLATE = {"1.37": "spec.template.spec", "1.36": "spec.template.spec", "1.35": "spec.template"}


@each(
    "patch",
    [
        {"schedulerName": "other"},
        {"containers": [{"name": "c", "image": "other"}]},
    ],
)
async def test_the_pod_template_of_a_job_is_immutable(server: Server, path: str, patch: Object) -> None:
    field = TEMPLATE[server.minor.name]
    await invalid(
        server.api.patch(path, {"spec": {"template": {"spec": patch}}}),
        saying=[f'Job.batch "a" is invalid: {field}: Invalid value: ', "field is immutable"],
        causes=[("FieldValueInvalid", field)],
    )


@each(
    "template",
    [
        {"metadata": {"labels": {"new": "1"}}},
        {"metadata": {"annotations": {"new": "1"}}},
        {"spec": {"nodeSelector": {"a": "b"}}},
        {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}},
        {"spec": {"schedulingGates": [{"name": "example.com/gate"}]}},
    ],
)
async def test_scheduling_directives_of_a_suspended_job_are_mutable(
    server: Server, path: str, template: Object
) -> None:
    patched = await server.api.patch(path, {"spec": {"template": template}})
    ((part, fields),) = template.items()
    for field, value in fields.items():
        found = patched["spec"]["template"][part][field]
        assert found == value if isinstance(value, list) else value.items() <= found.items()


async def test_scheduling_directives_of_a_resumed_job_are_immutable(server: Server, path: str) -> None:
    resumed = await server.api.patch(path, {"spec": {"suspend": False}})
    assert resumed["spec"]["suspend"] is False
    await invalid(
        server.api.patch(path, {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}),
        saying="field is immutable",
        causes=[("FieldValueInvalid", "spec.template")],
    )


@each(
    "spec",
    [{"parallelism": 4}, {"backoffLimit": 3}, {"ttlSecondsAfterFinished": 60}],
    ids=lambda spec: next(iter(spec)),
)
async def test_mutable_fields_of_a_job_are_changed(server: Server, path: str, spec: Object) -> None:
    before = await server.api.get(path)
    patched = await server.api.patch(path, {"spec": spec})
    assert patched["spec"].items() >= spec.items()
    assert patched["metadata"]["generation"] == before["metadata"]["generation"] + 1


async def test_an_indexed_job_is_resized_by_completions_and_parallelism_together(
    server: Server, namespace: str
) -> None:
    await server.api.create(jobs(namespace), job(completionMode="Indexed", completions=3, parallelism=3))
    patched = await server.api.patch(jobs(namespace, "a"), {"spec": {"completions": 5, "parallelism": 5}})
    assert (patched["spec"]["completions"], patched["spec"]["parallelism"]) == (5, 5)
    await invalid(
        server.api.patch(jobs(namespace, "a"), {"spec": {"completions": 4}}),
        'Job.batch "a" is invalid: spec.completions: Invalid value: 4: '
        "can only be modified in tandem with spec.parallelism",
    )


async def test_a_put_of_the_object_that_was_read_is_accepted(server: Server, path: str) -> None:
    """Everything that the server filled in may come back."""
    read = await server.api.get(path)
    # The Job's controller writes its status meanwhile, which a version would notice.
    del read["metadata"]["resourceVersion"]
    answer = await send(server.api, "PUT", path, read)
    assert answer.status == 200
    assert answer.body["spec"] == read["spec"]
    assert answer.body["metadata"]["generation"] == 1


def in_rules(rule: Object, **spec: object) -> Object:
    """A Job that fails by its pods, with one rule."""
    return {"podFailurePolicy": {"rules": [rule]}, **spec}


CODES: Object = {"operator": "In", "values": [1]}
INDEXED: Object = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
MANY: Object = {"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1}
RULE = "spec.podFailurePolicy.rules[0]"
SUCCESS = "spec.successPolicy.rules[0]"
POSITIVE = "must be greater than or equal to 0"
OF_INDEXES = "requires indexed completion mode"
TOO_MANY = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index"


@each(
    ("spec", "words"),
    [
        (
            {"completionMode": "Indexed", "parallelism": 4},
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        ({"parallelism": -1}, f"spec.parallelism: Invalid value: -1: {POSITIVE}"),
        ({"completions": -1}, f"spec.completions: Invalid value: -1: {POSITIVE}"),
        ({"backoffLimit": -1}, f"spec.backoffLimit: Invalid value: -1: {POSITIVE}"),
        ({"ttlSecondsAfterFinished": -1}, f"spec.ttlSecondsAfterFinished: Invalid value: -1: {POSITIVE}"),
        (
            {"completionMode": "Odd"},
            'spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", "Indexed"',
        ),
        (
            {**INDEXED, "parallelism": 100_001},
            (
                "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is "
                "Indexed"
            ),
        ),
        ({"backoffLimitPerIndex": 1}, f"spec.backoffLimitPerIndex: Invalid value: 1: {OF_INDEXES}"),
        (
            {**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 3},
            "spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions",
        ),
        (MANY, "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"),
        ({**MANY, "maxFailedIndexes": 10_001}, f"spec.maxFailedIndexes: Invalid value: 10001: {TOO_MANY}"),
        ({**MANY, "maxFailedIndexes": 1, "parallelism": 10_001}, f"spec.parallelism: Invalid value: 10001: {TOO_MANY}"),
        (
            {"managedBy": "me"},
            'spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        ({"managedBy": f"a.b/{'c' * 60}"}, "spec.managedBy: Too long: may not be more than 63 bytes"),
        (
            in_rules({"action": "FailIndex", "onExitCodes": CODES}),
            f'{RULE}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set',
        ),
        (
            in_rules({"action": "Odd", "onExitCodes": CODES}),
            f'{RULE}.action: Unsupported value: "Odd": supported values: "Count", "FailIndex", "FailJob", "Ignore"',
        ),
        (
            in_rules({"action": "Count"}),
            f"{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
        ),
        (
            in_rules({"action": "Count", "onExitCodes": CODES, "onPodConditions": [{"type": "A"}]}),
            f"{RULE}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
        ),
        (
            in_rules({"action": "Count", "onPodConditions": [{"type": "A", "status": "Odd"}]}),
            f'{RULE}.onPodConditions[0].status: Unsupported value: "Odd": supported values: "False", "True", "Unknown"',
        ),
        (
            in_rules({"action": "Count", "onExitCodes": {**CODES, "containerName": "x"}}),
            (
                f'{RULE}.onExitCodes.containerName: Invalid value: "x": must be one of the container or initContainer '
                "names in the pod template"
            ),
        ),
        (
            in_rules({"action": "Count", "onExitCodes": {"operator": "In", "values": [0]}}),
            f"{RULE}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
        ),
        (
            in_rules({"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [2, 1]}}),
            f"{RULE}.onExitCodes.values: Invalid value: [2,1]: must be ordered",
        ),
        (
            in_rules({"action": "Count", "onExitCodes": CODES}, podReplacementPolicy="TerminatingOrFailed"),
            'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
        ),
        (
            {"successPolicy": {"rules": [{"succeededCount": 1}]}},
            (
                'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: '
                f"{OF_INDEXES}"
            ),
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{}]}},
            f"{SUCCESS}: Required value: at least one of succeededCount or succeededIndexes must be specified",
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededCount": 3}]}},
            (
                f"{SUCCESS}.succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of specified "
                "completions)"
            ),
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "1-2"}]}},
            f'{SUCCESS}.succeededIndexes: Invalid value: "1-2": error parsing succeededIndexes: too large index: "2"',
        ),
    ],
)
async def test_a_job_with_an_invalid_spec_is_refused(server: Server, namespace: str, spec: Object, words: str) -> None:
    await invalid(server.api.create(jobs(namespace), job(**spec)), f'Job.batch "a" is invalid: {words}')


@each(
    ("policy", "spec", "words"),
    [
        ("Always", {}, 'Required value: valid values: "OnFailure", "Never"'),
        (
            "OnFailure",
            in_rules({"action": "Count", "onExitCodes": CODES}),
            'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified',
        ),
    ],
)
async def test_the_pods_of_a_job_end(server: Server, namespace: str, policy: str, spec: Object, words: str) -> None:
    body = job(**spec)
    body["spec"]["template"]["spec"]["restartPolicy"] = policy
    message = f'Job.batch "a" is invalid: spec.template.spec.restartPolicy: {words}'
    await invalid(server.api.create(jobs(namespace), body), message)


async def test_the_pods_of_a_job_have_the_labels_that_it_selects(server: Server, namespace: str) -> None:
    body = job()
    body["spec"]["template"]["metadata"] = {"labels": {"job-name": "other"}}
    await invalid(
        server.api.create(jobs(namespace), body),
        saying="must be 'a'",
        causes=[("FieldValueInvalid", "spec.template.metadata.labels[job-name]")],
    )
    body = job(manualSelector=True, selector={"matchLabels": {"mine": "1"}})
    await invalid(
        server.api.create(jobs(namespace), body),
        saying="`selector` does not match template `labels`",
        causes=[("FieldValueInvalid", "spec.template.metadata.labels")],
    )
    body = job(manualSelector=True)
    await invalid(server.api.create(jobs(namespace), body), saying="spec.selector: Required value")
    body = job(selector={"matchExpressions": [{"key": "k", "operator": "Odd"}]})
    odd = 'Job.batch "a" is invalid: spec.selector.matchExpressions[0].operator: Invalid value: "Odd": not a valid'
    await invalid(server.api.create(jobs(namespace), body), f"{odd} selector operator")


async def test_the_host_names_of_an_indexed_job_are_labels(server: Server, namespace: str) -> None:
    name = "n" * 62
    await invalid(
        server.api.create(jobs(namespace), job(name, **INDEXED)),
        f'Job.batch "{name}" is invalid: metadata.name: Invalid value: "{name}": will not able to create pod with '
        f"invalid DNS label: {name}-1",
    )
