"""dryRun=All: the answer of the real thing, and nothing stored."""

from tests.conformance.answers import already_exists, invalid, not_found, send
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps


async def test_a_dry_run_of_a_create_stores_nothing(server: Server, namespace: str) -> None:
    # A dry create answers the object without a version.
    answer = await send(server.api, "POST", configmaps(namespace), configmap("a", {"k": "v"}), dryRun="All")
    assert answer.status == 201
    assert answer.body["data"] == {"k": "v"}
    assert answer.body["metadata"]["uid"]
    assert "resourceVersion" not in answer.body["metadata"]
    await not_found(server.api.get(configmaps(namespace, "a")))

    # A dry apply creates nothing.
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
    await not_found(server.api.get(configmaps(namespace, "a")))

    # A dry create of what is there is 409.
    await server.api.create(configmaps(namespace), configmap("a"))
    await already_exists(server.api.create(configmaps(namespace), configmap("a"), dryRun="All"))

    # A dry create is validated.
    await invalid(server.api.create(configmaps(namespace), configmap("Bad"), dryRun="All"))


async def test_a_dry_run_of_an_update_stores_nothing(server: Server, namespace: str) -> None:
    # A dry put changes nothing.
    created = await server.api.create(configmaps(namespace), configmap("a"))
    answer = await server.api.update(configmaps(namespace, "a"), configmap("a", {"k": "v"}), dryRun="All")
    assert answer["data"] == {"k": "v"}
    assert answer["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    assert await server.api.get(configmaps(namespace, "a")) == created

    # A dry patch changes nothing.
    created = await server.api.create(configmaps(namespace), configmap("b"))
    answer = await server.api.patch(configmaps(namespace, "b"), {"data": {"k": "v"}}, dryRun="All")
    assert answer["data"] == {"k": "v"}
    assert await server.api.get(configmaps(namespace, "b")) == created


async def test_a_dry_run_of_a_delete_deletes_nothing(server: Server, namespace: str) -> None:
    # A dry delete deletes nothing.
    created = await server.api.create(configmaps(namespace), configmap("a"))
    answer = await send(server.api, "DELETE", configmaps(namespace, "a"), dryRun="All")
    assert (answer.status, answer.body["status"]) == (200, "Success")
    assert await server.api.get(configmaps(namespace, "a")) == created

    # A delete may be dry by its options.
    created = await server.api.create(configmaps(namespace), configmap("b"))
    answer = await send(server.api, "DELETE", configmaps(namespace, "b"), {"dryRun": ["All"]})
    assert answer.body["status"] == "Success"
    assert await server.api.get(configmaps(namespace, "b")) == created

    # Options in the body of a delete are all that counts. The query is read only where there is no body.
    await server.api.create(configmaps(namespace), configmap("c"))
    answer = await send(server.api, "DELETE", configmaps(namespace, "c"), {"kind": "DeleteOptions"}, dryRun="All")
    assert answer.status == 200
    await not_found(server.api.get(configmaps(namespace, "c")))
