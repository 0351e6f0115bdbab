"""fieldValidation: unknown fields are refused, warned of or dropped."""

from tests.conformance.answers import Refusal, bad_request, send, warnings_of
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, job, jobs, jobset, jobsets

UNKNOWN = '{"metadata": {"name": "a"}, "data": {"k": "v"}, "bogus": 1, "dataa": {}}'


async def test_strict_validation_refuses_unknown_fields(server: Server, namespace: str) -> None:
    # Strict refuses unknown fields.
    answer = await send(server.api, "POST", configmaps(namespace), UNKNOWN, fieldValidation="Strict")
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'unknown field "bogus", unknown field "dataa"'
    )

    # Unknown fields are named by their path in the order of the body.
    body = job("a", {"containers": [{"name": "c", "image": "i", "baz": {"x": 1}}], "restartPolicy": "Never", "bar": 1})
    body["spec"]["foo"] = 1
    await bad_request(
        server.api.create(jobs(namespace), body, fieldValidation="Strict"),
        'Job in version "v1" cannot be handled as a Job: strict decoding error: '
        'unknown field "spec.template.spec.containers[0].baz", unknown field "spec.template.spec.bar", '
        'unknown field "spec.foo"',
    )

    # A put is validated too.
    await server.api.create(configmaps(namespace), configmap("a"))
    await bad_request(
        server.api.update(configmaps(namespace, "a"), {**configmap("a"), "dat": {}}, fieldValidation="Strict"),
        saying='strict decoding error: unknown field "dat"',
    )


async def test_warn_drops_unknown_fields_and_ignore_gives_no_warning(server: Server, namespace: str) -> None:
    for name, asked in (("asked", {"fieldValidation": "Warn"}), ("by-default", {})):
        body = UNKNOWN.replace('"a"', f'"{name}"')
        answer = await send(server.api, "POST", configmaps(namespace), body, **asked)
        assert answer.status == 201, name
        assert warnings_of(answer) == ['unknown field "bogus"', 'unknown field "dataa"'], name
        assert not answer.body.keys() & {"bogus", "dataa"}, name

    body = UNKNOWN.replace('"a"', '"ignore"')
    answer = await send(server.api, "POST", configmaps(namespace), body, fieldValidation="Ignore")
    assert answer.status == 201
    assert warnings_of(answer) == []
    assert "bogus" not in answer.body


async def test_unknown_fields_of_a_merge_patch_are_warned_of_and_of_apply_refused(
    server: Server, namespace: str
) -> None:
    # A patch may warn.
    await server.api.create(configmaps(namespace), configmap("a"))
    answer = await send(server.api, "PATCH", configmaps(namespace, "a"), {"dat": {}}, "application/merge-patch+json")
    assert answer.status == 200
    assert warnings_of(answer) == ['unknown field "dat"']

    # Apply takes no unknown field at all.
    await Refusal(500, "")(
        server.api.patch(configmaps(namespace, "b"), {**configmap("b"), "dat": {}}, kind="apply", fieldManager="m"),
        saying=[".dat: field not declared in schema"],
    )


async def test_unknown_fields_of_custom_resources_are_refused_if_strict(server: Server, namespace: str) -> None:
    # Custom resources are validated too.
    await bad_request(
        server.api.create(jobsets(namespace), jobset(bogus=1), fieldValidation="Strict"),
        'JobSet in version "v1alpha2" cannot be handled as a JobSet: strict decoding error: unknown field "spec.bogus"',
    )

    # Custom resources lose unknown fields.
    answer = await send(server.api, "POST", jobsets(namespace), jobset(bogus=1))
    assert answer.status == 201
    assert warnings_of(answer) == ['unknown field "spec.bogus"']
    assert "bogus" not in answer.body["spec"]
