"""Invalid requests: credentials, paths, methods and bodies."""

from tests.conformance.answers import Refusal, bad_request, invalid, not_found, send
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, jobs
from tests.controlplane.api import path_of
from tests.rows import each

NO_RESOURCE = "the server could not find the requested resource"
NO_METHOD = "the server does not allow this method on the requested resource"


async def test_an_unknown_token_is_401(server: Server, namespace: str) -> None:
    await Refusal(401, "Unauthorized")(server.stranger("nobody").get(configmaps(namespace)), "Unauthorized")


@each("path", ["/healthz", "/livez", "/readyz"])
async def test_unauthenticated_clients_get_the_health(server: Server, path: str) -> None:
    answer = await server.stranger("").exchange("GET", path)
    assert (answer.status, answer.text) == (200, "ok")
    assert answer.headers["Content-Type"].startswith("text/plain")


@each(
    "path",
    [
        "/api/v2",
        "/apis/batch/v9",
        "/api/v1/nothings",
        "/apis/batch/v1/namespaces/default/nothings",
        "/apis/batch/v1/namespaces/default/jobs/a/nothing",
        "/api/v1/namespaces/default/namespaces",
    ],
)
async def test_an_unserved_resource_is_404_with_a_status(server: Server, path: str) -> None:
    await not_found(server.api.get(path), NO_RESOURCE)


@each("path", ["/nope", "/apis/nope.example.com", "/apis/nope.example.com/v1"])
async def test_an_unknown_path_is_404_in_plain_text(server: Server, path: str) -> None:
    answer = await server.api.exchange("GET", path)
    assert (answer.status, answer.text) == (404, "404 page not found\n")
    assert answer.headers["Content-Type"].startswith("text/plain")


@each(
    ("method", "path"),
    [
        ("POST", configmaps("default", "a")),
        ("PUT", configmaps("default")),
        ("PATCH", configmaps("default")),
        ("POST", path_of("v1", "configmaps")),
        ("DELETE", path_of("v1", "namespaces")),
        ("DELETE", jobs("default", "a") + "/status"),
        ("GET", path_of("v1", "pods", namespace="default", name="a") + "/eviction"),
        ("GET", path_of("authorization.k8s.io/v1", "selfsubjectaccessreviews")),
        ("POST", "/version"),
    ],
)
async def test_a_method_that_a_path_does_not_have_is_405(server: Server, method: str, path: str) -> None:
    answer = await send(server.api, method, path, {} if method in ("POST", "PUT", "PATCH") else None)
    assert answer.status == 405
    assert (answer.body["reason"], answer.body["message"]) == ("MethodNotAllowed", NO_METHOD)


async def test_unsupported_formats_of_bodies_are_refused(server: Server, namespace: str) -> None:
    # A body in another format is 415.
    answer = await send(server.api, "POST", configmaps(namespace), configmap(), "text/plain")
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")
    assert answer.body["message"].startswith(
        "the body of the request was in an unknown format - accepted media types include: application/json"
    )

    # A patch in another format is 415.
    await server.api.create(configmaps(namespace), configmap("a"))
    answer = await send(server.api, "PATCH", configmaps(namespace, "a"), {}, "application/json")
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")


@each("body", ['{"metadata": ', "", "[]", '"x"'], ids=["cut-off", "empty", "list", "text"])
async def test_a_body_that_is_no_object_is_400(server: Server, namespace: str, body: str) -> None:
    answer = await send(server.api, "POST", configmaps(namespace), body)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"].startswith(
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; "
    )


@each(
    ("body", "words"),
    [
        (
            {"metadata": {"name": 5}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            {"metadata": {"name": "a", "labels": {"k": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"metadata": {"name": "a"}, "data": []},
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            {"metadata": {"name": "a"}, "data": {"k": 1}},
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
    ],
)
async def test_a_body_of_wrong_types_is_400(server: Server, namespace: str, body: object, words: str) -> None:
    answer = await send(server.api, "POST", configmaps(namespace), body)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"] == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {words}'


async def test_wrong_types_in_metadata_are_refused_before_they_are_compared(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a"))
    wrong, here = configmap("a", uid=["a"]), configmaps(namespace, "a")
    answer = await send(server.api, "PUT", here, wrong)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert "cannot unmarshal array into Go struct field ObjectMeta.metadata.uid of type " in answer.body["message"]
    # kube-apiserver converts what a patch makes of an object, and says so with 422, where a PUT is 400.
    answers = [
        await send(server.api, "PATCH", here, wrong, "application/merge-patch+json"),
        await send(
            server.api, "PATCH", here, {**wrong, "metadata": "x"}, "application/apply-patch+yaml", fieldManager="m"
        ),
    ]
    assert all(answer.body["kind"] == "Status" and answer.status >= 400 for answer in answers)


async def test_a_body_with_another_name_or_kind_than_its_path_is_refused(server: Server, namespace: str) -> None:
    # A body of another version is 400.
    await bad_request(
        server.api.create(configmaps(namespace), {**configmap(), "apiVersion": "v2"}),
        saying='ConfigMap in version "v2" cannot be handled as a ConfigMap',
    )

    # A body of another kind is 400.
    await bad_request(
        server.api.create(configmaps(namespace), {**configmap(), "kind": "Secret"}),
        saying='Secret in version "v1" cannot be handled as a ConfigMap',
    )

    # A put under another name is 400.
    await server.api.create(configmaps(namespace), configmap("a"))
    await bad_request(
        server.api.update(configmaps(namespace, "a"), configmap("b")),
        "the name of the object (b) does not match the name on the URL (a)",
    )

    # A put has a name.
    await bad_request(
        server.api.update(configmaps(namespace, "a"), {"metadata": {}}),
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    )


async def test_a_body_for_another_namespace_is_400(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a"))
    for method, path in (("POST", configmaps(namespace)), ("PUT", configmaps(namespace, "a"))):
        answer = await send(server.api, method, path, configmap("a", namespace="other"))
        assert (answer.status, answer.body["reason"]) == (400, "BadRequest"), method
        assert answer.body["message"] == (
            "the namespace of the provided object does not match the namespace sent on the request"
        )


@each(
    ("asked", "reason", "words"),
    [
        ({"dryRun": "Server"}, "FieldValueNotSupported", "Unsupported value"),
        ({"fieldValidation": "Loose"}, "FieldValueNotSupported", 'Unsupported value: "Loose": supported values: "", '),
        ({"fieldManager": "m" * 129}, "FieldValueTooLong", "Too long: may not be more than 128 bytes"),
        ({"fieldManager": "a\tb"}, "FieldValueInvalid", "invalid character U+0009 (at position 1)"),
    ],
)
async def test_options_of_a_write_are_checked(
    server: Server, namespace: str, asked: dict[str, str], reason: str, words: str
) -> None:
    (field,) = asked
    await invalid(
        server.api.create(configmaps(namespace), configmap("a"), **asked),
        saying=[f'CreateOptions.meta.k8s.io "" is invalid: {field}: ', words],
        causes=[(reason, field)],
    )
    await not_found(server.api.get(configmaps(namespace, "a")))


async def test_only_an_apply_may_be_forced(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a"))
    await invalid(
        server.api.patch(configmaps(namespace, "a"), {"data": {"k": "v"}}, force="true"),
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
    )
