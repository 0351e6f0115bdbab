"""Server-side apply: ownership of fields, conflicts, and the removal of fields that are no longer applied."""

import asyncio

import pytest

from tests.conformance.answers import bad_request, conflict, invalid, send
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, create_pod, pod, pods
from tests.conformance.webhooks import CONFIGMAPS, Hooks
from tests.controlplane.api import Object, path_of
from tests.rows import each

APPLY = "application/apply-patch+yaml"
DATA = {"name": "a"}


def owners(obj: Object) -> dict[str, Object]:
    """The fields of each manager."""
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields") or []}


def fields(*keys: str) -> Object:
    return {"f:data": {f"f:{key}": {} for key in keys}}


class Applier:
    """Applies one ConfigMap under several names."""

    def __init__(self, server: Server, namespace: str, name: str = "a") -> None:
        self._server, self._namespace, self._name = server, namespace, name
        self.api = server.api
        self.path = configmaps(namespace, name)

    def to(self, name: str) -> "Applier":
        """The same for another ConfigMap."""
        return Applier(self._server, self._namespace, name)

    async def __call__(self, manager: str, data: dict[str, str] | None, *, force: bool = False) -> Object:
        forced = {"force": True} if force else {}
        return await self.api.patch(
            self.path, configmap(self._name, data), kind="apply", fieldManager=manager, **forced
        )


@pytest.fixture
def apply(server: Server, namespace: str) -> Applier:
    return Applier(server, namespace)


async def test_the_first_apply_creates_the_object(server: Server, namespace: str, apply: Applier) -> None:
    # The first apply creates.
    answer = await send(
        server.api, "PATCH", configmaps(namespace, "a"), configmap("a", {"k": "v"}), APPLY, fieldManager="m"
    )
    assert answer.status == 201
    assert answer.body["data"] == {"k": "v"}
    (entry,) = answer.body["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["fieldsV1"]) == ("m", "Apply", fields("k"))

    # The same again changes nothing.
    apply = apply.to("b")
    created = await apply("m", {"k": "v"})
    assert await apply("m", {"k": "v"}) == created


async def test_a_field_that_is_no_longer_applied_is_removed(apply: Applier) -> None:
    # What is no longer applied is removed.
    await apply("m", {"k": "v", "j": "w"})
    applied = await apply("m", {"k": "u"})
    assert applied["data"] == {"k": "u"}
    assert owners(applied) == {"m": fields("k")}

    # Apply removes only what it owned.
    apply = apply.to("b")
    await apply("one", {"k": "v"})
    await apply.api.patch(apply.path, {"data": {"j": "w"}}, fieldManager="two")
    applied = await apply("one", None)
    assert applied["data"] == {"j": "w"}

    # The same value is shared.
    apply = apply.to("c")
    await apply("one", {"k": "v"})
    applied = await apply("two", {"k": "v"})
    assert owners(applied) == {"one": fields("k"), "two": fields("k")}

    # A shared field stays until both let go.
    apply = apply.to("d")
    await apply("one", {"k": "v"})
    await apply("two", {"k": "v"})
    assert (await apply("one", None))["data"] == {"k": "v"}
    assert "data" not in await apply("two", None)


async def test_applying_a_field_of_another_manager_is_a_conflict(apply: Applier, namespace: str) -> None:
    # Another value for anothers field is a conflict.
    await apply("one", {"k": "v"})
    failure = await conflict(
        apply("two", {"k": "w"}),
        'Apply failed with 1 conflict: conflict with "one": .data.k',
        causes=[("FieldManagerConflict", ".data.k")],
    )
    (cause,) = failure.body["details"]["causes"]
    assert cause["message"] == 'conflict with "one"'

    # Each conflict is a cause.
    apply = apply.to("b")
    await apply("one", {"k": "v"})
    await apply.api.patch(apply.path, {"data": {"j": "v"}}, fieldManager="two")
    failure = await conflict(
        apply("three", {"k": "w", "j": "w"}),
        'Apply failed with 2 conflicts: conflicts with "one":\n- .data.k\nconflicts with "two" using v1:\n- .data.j',
        causes=[("FieldManagerConflict", ".data.j"), ("FieldManagerConflict", ".data.k")],
    )
    assert {cause["message"] for cause in failure.body["details"]["causes"]} == {
        'conflict with "one"',
        'conflict with "two" using v1',
    }

    # Objects made otherwise belong to their maker.
    apply = apply.to("c")
    await apply.api.create(configmaps(namespace), configmap("c", {"k": "v"}), fieldManager="maker")
    await conflict(apply("one", {"k": "w"}), 'Apply failed with 1 conflict: conflict with "maker" using v1: .data.k')

    # Apply from an old version is a conflict.
    apply = apply.to("e")
    created = await apply("m", {"k": "v"})
    await apply("m", {"k": "w"})
    old = configmap("e", {"k": "u"}, resourceVersion=created["metadata"]["resourceVersion"])
    await conflict(
        apply.api.patch(apply.path, old, kind="apply", fieldManager="m"), saying="the object has been modified"
    )


async def test_a_forced_apply_takes_ownership(apply: Applier) -> None:
    # Force takes the field.
    await apply("one", {"k": "v"})
    applied = await apply("two", {"k": "w"}, force=True)
    assert applied["data"] == {"k": "w"}
    assert owners(applied) == {"two": fields("k")}

    # An update takes the field.
    apply = apply.to("b")
    await apply("one", {"k": "v", "j": "w"})
    patched = await apply.api.patch(apply.path, {"data": {"k": "u"}}, fieldManager="two")
    assert owners(patched) == {"one": fields("j"), "two": fields("k")}
    entry = next(entry for entry in patched["metadata"]["managedFields"] if entry["manager"] == "two")
    assert entry["operation"] == "Update"


async def test_options_of_apply_are_checked(server: Server, namespace: str) -> None:
    # Apply needs a manager.
    await invalid(
        server.api.patch(configmaps(namespace, "a"), configmap("a"), kind="apply"),
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        causes=[("FieldValueRequired", "fieldManager")],
    )

    # Apply with a uid does not create.
    uid = "11111111-1111-1111-1111-111111111111"
    await conflict(
        server.api.patch(configmaps(namespace, "a"), configmap("a", uid=uid), kind="apply", fieldManager="m"),
        f'Operation cannot be fulfilled on configmaps "a": uid mismatch: the provided object specified uid {uid}, '
        "and no existing object was found",
    )


@each(
    ("body", "message"),
    [
        ({**configmap("a"), "metadata": {"name": "a", "managedFields": []}}, "metadata.managedFields must be nil"),
        ({"kind": "ConfigMap", "metadata": DATA}, "invalid object type: /, Kind=ConfigMap"),
        ({"metadata": DATA}, "invalid object type: /, Kind="),
        ({**configmap("a"), "kind": "Secret"}, "invalid object type: /v1, Kind=Secret"),
        (configmap("b"), "the name of the object (b) does not match the name on the URL (a)"),
    ],
)
async def test_an_applied_object_needs_its_kind_and_no_managed_fields(
    server: Server, namespace: str, body: Object, message: str
) -> None:
    await bad_request(server.api.patch(configmaps(namespace, "a"), body, kind="apply", fieldManager="m"), message)


async def test_list_entries_are_owned_by_key(server: Server, namespace: str) -> None:
    # Entries of lists have owners by key.
    await create_pod(server, namespace, pod())
    await server.api.patch(
        f"{pods(namespace, 'a')}/status",
        {"apiVersion": "v1", "kind": "Pod", "status": {"conditions": [{"type": "Z", "status": "True"}]}},
        kind="apply",
        fieldManager="m",
    )
    read = await server.api.get(pods(namespace, "a"))
    (entry,) = [entry for entry in read["metadata"]["managedFields"] if entry["manager"] == "m"]
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {
        "f:status": {"f:conditions": {'k:{"type":"Z"}': {".": {}, "f:status": {}, "f:type": {}}}}
    }

    # Conflicts in lists name the entry.
    await create_pod(server, namespace, pod("b"), fieldManager="maker")
    image = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "j"}]}}
    await conflict(
        server.api.patch(pods(namespace, "b"), image, kind="apply", fieldManager="m"),
        'Apply failed with 1 conflict: conflict with "maker" using v1: .spec.containers[name="c"].image',
        causes=[("FieldManagerConflict", '.spec.containers[name="c"].image')],
    )


async def test_an_entry_that_an_apply_drops_goes_with_what_others_set_in_it(server: Server, namespace: str) -> None:
    path = path_of("v1", "services", namespace=namespace, name="s")

    async def apply(*ports: int) -> Object:
        listed = [{"name": f"p{port}", "port": port} for port in ports]
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": listed}}
        return await server.api.patch(path, body, kind="apply", fieldManager="one")

    await apply(1, 2)
    change = {"spec": {"ports": [{"port": 2, "targetPort": 7}]}}
    changed = await server.api.patch(path, change, kind="strategic", fieldManager="two")
    assert [port["targetPort"] for port in changed["spec"]["ports"]] == [1, 7]
    left = await apply(1)
    assert [port["port"] for port in left["spec"]["ports"]] == [1]
    # Nothing is left of the other's.
    assert "two" not in {entry["manager"] for entry in left["metadata"]["managedFields"]}


async def test_concurrent_writes_that_create_an_object_are_all_made(hooks: Hooks) -> None:
    roles = path_of("rbac.authorization.k8s.io/v1", "roles", namespace=hooks.namespace, name="a")
    rule = {**CONFIGMAPS, "apiGroups": ["*"], "resources": ["configmaps", "roles"]}
    # All of them find nothing, and wait for the webhook.
    await hooks.register("mutating", hooks.entry("hook", rules=[rule]))
    apply = Applier(hooks.server, hooks.namespace)
    await asyncio.gather(*(apply(f"m{key}", {f"k{key}": "v"}) for key in range(3)))
    stored = await apply.api.get(apply.path)
    assert stored["data"] == {"k0": "v", "k1": "v", "k2": "v"}
    assert set(owners(stored)) == {"m0", "m1", "m2"}

    role = {"metadata": {"name": "a"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    await asyncio.gather(*(apply.api.update(roles, role) for _ in range(3)))
