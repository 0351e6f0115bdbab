"""Invalid requests: credentials, paths, methods and bodies."""

import pytest

from tests.conformance.answers import refused, send
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, jobs
from tests.controlplane.api import path_of
from tests.rows import each

NO_RESOURCE = "the server could not find the requested resource"
NO_METHOD = "the server does not allow this method on the requested resource"


async def test_an_unknown_token_is_401(server: Server, namespace: str) -> None:
    await refused(server.stranger("nobody").get(configmaps(namespace)), 401, "Unauthorized", "Unauthorized")


@each("path", ["/healthz", "/livez", "/readyz"])
async def test_unauthenticated_clients_get_the_health(server: Server, path: str) -> None:
    answer = await server.stranger("").exchange("GET", path)
    assert (answer.status, answer.text) == (200, "ok")
    assert answer.headers["Content-Type"].startswith("text/plain")


@each(
    "path",
    [
        pytest.param("/api/v2", id="version-of-the-core"),
        pytest.param("/apis/batch/v9", id="version-of-a-group"),
        pytest.param("/api/v1/nothings", id="resource-of-the-core"),
        pytest.param("/apis/batch/v1/namespaces/default/nothings", id="resource-of-a-group"),
        pytest.param("/apis/batch/v1/namespaces/default/jobs/a/nothing", id="subresource"),
        pytest.param("/api/v1/namespaces/default/namespaces", id="cluster-resource-in-a-namespace"),
    ],
)
async def test_an_unserved_resource_is_404_with_a_status(server: Server, path: str) -> None:
    await refused(server.api.get(path), 404, "NotFound", NO_RESOURCE)


@each("path", ["/nope", "/apis/nope.example.com", "/apis/nope.example.com/v1"])
async def test_an_unknown_path_is_404_in_plain_text(server: Server, path: str) -> None:
    answer = await server.api.exchange("GET", path)
    assert (answer.status, answer.text) == (404, "404 page not found\n")
    assert answer.headers["Content-Type"].startswith("text/plain")


@each(
    ("method", "path"),
    [
        pytest.param("POST", configmaps("default", "a"), id="post-to-an-object"),
        pytest.param("PUT", configmaps("default"), id="put-to-a-collection"),
        pytest.param("PATCH", configmaps("default"), id="patch-of-a-collection"),
        pytest.param("POST", path_of("v1", "configmaps"), id="post-without-namespace"),
        pytest.param("DELETE", path_of("v1", "namespaces"), id="delete-of-all-namespaces"),
        pytest.param("DELETE", jobs("default", "a") + "/status", id="delete-of-a-status"),
        pytest.param(
            "GET", path_of("v1", "pods", namespace="default", name="a") + "/eviction", id="get-of-an-eviction"
        ),
        pytest.param("GET", path_of("authorization.k8s.io/v1", "selfsubjectaccessreviews"), id="get-of-reviews"),
        pytest.param("POST", "/version", id="post-to-version"),
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
        pytest.param(
            {"metadata": {"name": 5}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
            id="number-for-text",
        ),
        pytest.param(
            {"metadata": {"name": "a"}, "data": []},
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
            id="list-for-map",
        ),
        pytest.param(
            {"metadata": {"name": "a"}, "data": {"k": 1}},
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            id="number-in-map",
        ),
    ],
)
async def test_a_body_of_wrong_types_is_400(server: Server, namespace: str, body: object, words: str) -> None:
    answer = await send(server.api, "POST", configmaps(namespace), body)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"] == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {words}'


async def test_a_body_with_another_name_or_kind_than_its_path_is_refused(server: Server, namespace: str) -> None:
    # A body of another version is 400.
    await refused(
        server.api.create(configmaps(namespace), {**configmap(), "apiVersion": "v2"}),
        400,
        "BadRequest",
        saying='ConfigMap in version "v2" cannot be handled as a ConfigMap',
    )

    # A body of another kind is 400.
    await refused(
        server.api.create(configmaps(namespace), {**configmap(), "kind": "Secret"}),
        400,
        "BadRequest",
        saying='Secret in version "v1" cannot be handled as a ConfigMap',
    )

    # A put under another name is 400.
    await server.api.create(configmaps(namespace), configmap("a"))
    await refused(
        server.api.update(configmaps(namespace, "a"), configmap("b")),
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    )

    # A put has a name.
    await refused(
        server.api.update(configmaps(namespace, "a"), {"metadata": {}}),
        400,
        "BadRequest",
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
