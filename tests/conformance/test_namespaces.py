"""Namespaces: what cannot be in one that is not there, and how one goes away."""

import secrets
from collections.abc import AsyncIterator

import pytest

from tests.conformance.answers import already_exists, details_of, forbidden, invalid, not_found, send
from tests.conformance.grounds import Server
from tests.conformance.objects import NAMESPACES, configmap, configmaps, gone, job, jobs
from tests.rows import each


@pytest.fixture
async def leaving(server: Server) -> AsyncIterator[str]:
    """A namespace that is being deleted, and held back by a finalizer in it."""
    name = f"leaving-{secrets.token_hex(3)}"
    await server.api.create(NAMESPACES, {"metadata": {"name": name}})
    await server.api.create(configmaps(name), configmap("hold", {"k": "v"}, finalizers=["example.com/hold"]))
    await server.api.delete(f"{NAMESPACES}/{name}")
    yield name
    # A test may have let it go itself.
    await send(
        server.api,
        "PATCH",
        configmaps(name, "hold"),
        {"metadata": {"finalizers": None}},
        "application/merge-patch+json",
    )


async def test_a_new_namespace_is_active_and_has_its_name_as_a_label(server: Server, namespace: str) -> None:
    # A new namespace is active and has its name as a label.
    read = await server.api.get(f"{NAMESPACES}/{namespace}")
    assert read["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}
    assert read["spec"] == {"finalizers": ["kubernetes"]}
    assert read["status"] == {"phase": "Active"}

    # The label is the servers to write.
    patched = await server.api.patch(
        f"{NAMESPACES}/{namespace}", {"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}}
    )
    assert patched["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}


async def test_invalid_requests_for_namespaces_are_refused(server: Server) -> None:
    # A namespace is named like a host.
    await invalid(
        server.api.create(NAMESPACES, {"metadata": {"name": "a.b"}}),
        'Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain dots',
    )

    # Some namespaces stay.
    await forbidden(
        server.api.delete(f"{NAMESPACES}/default"),
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )

    # Nothing is found where no namespace is.
    await not_found(server.api.get(configmaps("nowhere", "a")), 'configmaps "a" not found')


@each("kind", ["configmaps", "jobs"])
async def test_a_create_in_an_absent_namespace_is_refused(server: Server, kind: str) -> None:
    path, body = {"configmaps": (configmaps("nowhere"), configmap()), "jobs": (jobs("nowhere"), job())}[kind]
    failure = await not_found(server.api.create(path, body), 'namespaces "nowhere" not found')
    assert details_of(failure) == {"name": "nowhere", "kind": "namespaces"}


async def test_deleting_a_namespace_returns_it_terminating(server: Server) -> None:
    name = f"leaving-{secrets.token_hex(3)}"
    await server.api.create(NAMESPACES, {"metadata": {"name": name}})
    answer = await server.api.delete(f"{NAMESPACES}/{name}")
    assert answer["kind"] == "Namespace"
    assert answer["metadata"]["deletionTimestamp"]
    assert answer["status"] == {"phase": "Terminating"}


@each("dry", [{}, {"dryRun": "All"}], ids=["really", "dry"])
async def test_a_create_in_a_terminating_namespace_is_refused(
    server: Server, leaving: str, dry: dict[str, str]
) -> None:
    failure = await forbidden(
        server.api.create(configmaps(leaving), configmap("late"), **dry),
        f'configmaps "late" is forbidden: unable to create new content in namespace {leaving} because it is being '
        "terminated",
        causes=[("NamespaceTerminating", "metadata.namespace")],
    )
    (cause,) = failure.body["details"]["causes"]
    assert cause["message"] == f"namespace {leaving} is being terminated"


async def test_a_terminating_namespace_is_deleted_with_its_objects(server: Server, leaving: str) -> None:
    # What is in a namespace that is leaving can be changed.
    patched = await server.api.patch(configmaps(leaving, "hold"), {"data": {"k": "w"}})
    assert patched["data"] == {"k": "w"}

    # A namespace that is leaving holds its name.
    await already_exists(
        server.api.create(NAMESPACES, {"metadata": {"name": leaving}}),
        f'object is being deleted: namespaces "{leaving}" already exists',
    )

    # A namespace takes everything in it along.
    await server.api.patch(configmaps(leaving, "hold"), {"metadata": {"finalizers": None}})
    await gone(server.api, f"{NAMESPACES}/{leaving}")
    await not_found(server.api.get(configmaps(leaving, "hold")))
