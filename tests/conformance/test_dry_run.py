"""dryRun=All: the answer of the real thing, and nothing stored."""

from tests.conformance.answers import refused, send
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps


async def test_a_dry_create_answers_the_object_without_a_version(server: Server, namespace: str) -> None:
    answer = await send(server.api, "POST", configmaps(namespace), configmap("a", {"k": "v"}), dryRun="All")
    assert answer.status == 201
    assert answer.body["data"] == {"k": "v"}
    assert answer.body["metadata"]["uid"]
    assert "resourceVersion" not in answer.body["metadata"]
    await refused(server.api.get(configmaps(namespace, "a")), 404, "NotFound")


async def test_a_dry_create_of_what_is_there_is_409(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a"))
    await refused(server.api.create(configmaps(namespace), configmap("a"), dryRun="All"), 409, "AlreadyExists")


async def test_a_dry_create_is_validated(server: Server, namespace: str) -> None:
    await refused(server.api.create(configmaps(namespace), configmap("Bad"), dryRun="All"), 422, "Invalid")


async def test_a_dry_put_changes_nothing(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), configmap("a"))
    answer = await server.api.update(configmaps(namespace, "a"), configmap("a", {"k": "v"}), dryRun="All")
    assert answer["data"] == {"k": "v"}
    assert answer["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    assert await server.api.get(configmaps(namespace, "a")) == created


async def test_a_dry_patch_changes_nothing(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), configmap("a"))
    answer = await server.api.patch(configmaps(namespace, "a"), {"data": {"k": "v"}}, dryRun="All")
    assert answer["data"] == {"k": "v"}
    assert await server.api.get(configmaps(namespace, "a")) == created


async def test_a_dry_apply_creates_nothing(server: Server, namespace: str) -> None:
    answer = await send(
        server.api,
        "PATCH",
        configmaps(namespace, "a"),
        configmap("a"),
        "application/apply-patch+yaml",
        fieldManager="m",
        dryRun="All",
    )
    assert answer.status == 201
    await refused(server.api.get(configmaps(namespace, "a")), 404, "NotFound")


async def test_a_dry_delete_deletes_nothing(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), configmap("a"))
    answer = await send(server.api, "DELETE", configmaps(namespace, "a"), dryRun="All")
    assert (answer.status, answer.body["status"]) == (200, "Success")
    assert await server.api.get(configmaps(namespace, "a")) == created


async def test_a_delete_may_be_dry_by_its_options(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), configmap("a"))
    answer = await send(server.api, "DELETE", configmaps(namespace, "a"), {"dryRun": ["All"]})
    assert answer.body["status"] == "Success"
    assert await server.api.get(configmaps(namespace, "a")) == created


async def test_options_in_the_body_of_a_delete_are_all_that_counts(server: Server, namespace: str) -> None:
    """The query is read only where there is no body."""
    await server.api.create(configmaps(namespace), configmap("a"))
    answer = await send(server.api, "DELETE", configmaps(namespace, "a"), {"kind": "DeleteOptions"}, dryRun="All")
    assert answer.status == 200
    await refused(server.api.get(configmaps(namespace, "a")), 404, "NotFound")


async def test_a_dry_deletecollection_deletes_nothing(server: Server, namespace: str) -> None:
    created = await server.api.create(configmaps(namespace), configmap("a", labels={"l": "1"}))
    answer = await send(server.api, "DELETE", configmaps(namespace), labelSelector="l", dryRun="All")
    assert answer.status == 200
    assert await server.api.get(configmaps(namespace, "a")) == created


async def test_dry_means_all_or_nothing(server: Server, namespace: str) -> None:
    await refused(
        server.api.create(configmaps(namespace), configmap("a"), dryRun="Some"),
        422,
        "Invalid",
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
        causes=[("FieldValueNotSupported", "dryRun")],
    )
