"""The verbs of an API server, without HTTP: what simulated controllers call, and what :mod:`http` puts on the wire.

Bodies and returned objects are copied: the caller may change both. Failures are :class:`errors.StatusError`. Warnings
for the client are appended to the ``warnings`` list of the call, if one is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangctl.api.labelselector import NAMESPACE_NAME
from gangctl.api.objects import copy, object_at
from gangctl.apiserver.metadata import FieldCause
from gangctl.apiserver.minors import NEWEST
from gangctl.sandbox import deletion, errors, patches, payloads, reads, writes
from gangctl.sandbox.admission.webhooks import WebhookAdmission
from gangctl.sandbox.deletion import FIRST_NAMESPACES, Deletion
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, now, uid
from gangctl.sandbox.patches import PatchType
from gangctl.sandbox.reads import ListQuery, ObjectList
from gangctl.sandbox.registry import Backend, Registry
from gangctl.sandbox.requests import (
    DEFAULT_DELETE,
    DEFAULT_WRITE,
    SYSTEM,
    Caller,
    DeleteOptions,
    Propagation,
    WriteOptions,
)
from gangctl.sandbox.store import ObjectStore, Stored
from gangctl.sandbox.writes import Write

__all__ = ["SYSTEM", "Api", "Caller", "DeleteOptions", "ObjectList", "Propagation", "WriteOptions"]

_CUSTOM_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
"""Types of a patch of a kind that a CustomResourceDefinition defines."""


class Api:
    """An API server of one minor, in memory."""

    def __init__(
        self,
        minor: str = NEWEST,
        *,
        gates: Mapping[str, bool] | None = None,
        runtime_config: Mapping[str, bool] | None = None,
        admission: WebhookAdmission | None = None,
    ) -> None:
        """Start with the namespaces that every cluster has; ValueError for an unknown minor."""
        registry = Registry(minor, gates, runtime_config)
        store = ObjectStore()
        self.backend = Backend(store, registry, admission or WebhookAdmission(store))
        kind = self.kind("namespaces")
        # Without the verbs, which are awaited: a constructor cannot do that. What they fill in is written out.
        for name in FIRST_NAMESPACES:
            metadata: Object = {"name": name, "uid": uid(), "creationTimestamp": now()}
            metadata["labels"] = {NAMESPACE_NAME: name}
            namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            namespace["spec"], namespace["status"] = {"finalizers": ["kubernetes"]}, {"phase": "Active"}
            self.store.put(kind.storage, ("", name), namespace)
        # Revisions before the first client are expired.
        self.store.compact()

    @property
    def store(self) -> ObjectStore:
        """The store; simulated controllers use the verbs instead."""
        return self.backend.store

    @property
    def registry(self) -> Registry:
        """The registry of served kinds."""
        return self.backend.registry

    def kind(self, qualified_name: str, version: str | None = None) -> ResourceKind:
        """The kind of ``jobs.batch``; KeyError when it is not served."""
        return self.registry.named(qualified_name, version)

    async def create(
        self, kind: ResourceKind, namespace: str, body: Object, caller: Caller, options: WriteOptions = DEFAULT_WRITE
    ) -> Object:
        """Create an object."""
        write = Write(self.backend, kind, namespace, caller, options, [])
        return copy((await writes.create(write, copy(body))).obj)

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        """One object."""
        return copy(reads.get(self.store, kind, namespace, name).obj)

    async def list(
        self, kind: ResourceKind, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> ObjectList:
        """Objects of one namespace, or of all (None)."""
        page = reads.page(self.store, kind, namespace, ListQuery(labels, fields))
        return ObjectList([copy(stored.obj) for stored in page.items], str(page.revision))

    async def update(  # noqa: PLR0917 -- what a request consists of
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        body: Object,
        caller: Caller,
        options: WriteOptions = DEFAULT_WRITE,
        *,
        subresource: str = "",
    ) -> Object:
        """Replace an object, or its ``subresource``."""
        write = Write(self.backend, kind, namespace, caller, options, [], name, subresource)
        stored, _ = await writes.update(write, copy(body))
        return copy(stored.obj)

    async def patch(  # noqa: PLR0917 -- what a request consists of
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        patch: Any,
        patch_type: PatchType,
        caller: Caller,
        options: WriteOptions = DEFAULT_WRITE,
        *,
        subresource: str = "",
    ) -> Object:
        """Patch an object, or its ``subresource``; an apply creates a missing one."""
        write = Write(self.backend, kind, namespace, caller, options, [], name, subresource)
        # In an object, which copy() takes: a JSON patch is a list.
        stored, _ = await self.patch_stored(write, copy({"patch": patch})["patch"], patch_type)
        return copy(stored.obj)

    async def patch_stored(self, write: Write, patch: Any, patch_type: PatchType) -> tuple[Stored, bool]:
        """The same for a prepared write, which keeps ``patch``; a frozen result, and whether it was created."""
        kind = write.kind
        if patch_type == "apply":
            return await self._apply(write, patch)
        # The keys of its lists come from Go types, which custom resources do not have.
        if patch_type == "strategic" and kind.custom:
            raise errors.unsupported_media_type(_CUSTOM_PATCHES)

        def patched(old: Object) -> Object:
            if patch_type == "merge":
                return patches.merge(old, patch)
            if patch_type == "json":
                return patches.json_patch(old, patch)
            return patches.strategic(old, patch, kind.kind)

        return await writes.patch(write, patch_type, patched), False

    async def _apply(self, write: Write, patch: Any) -> tuple[Stored, bool]:
        kind, manager = write.kind, write.options.field_manager
        if not manager:
            cause = FieldCause("FieldValueRequired", "fieldManager", "Required value: is required for apply patch")
            raise errors.invalid(payloads.options_kind("PatchOptions"), "", [cause])
        if not isinstance(patch, dict):
            raise errors.bad_request("an apply patch is an object")
        force = write.options.force
        self._check_applied(write, patch)
        if self.store.get(kind.storage, write.key) is None and not write.subresource:
            if patch["metadata"].get("uid"):
                uid = patch["metadata"]["uid"]
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise errors.conflict(kind, write.name, why)
            payloads.settle_place(kind, write.namespace, patch, write.name)
            write.operation = "Apply"
            merged = patches.apply(kind, None, patch, manager, force=force)
            if (created := await writes.create_first(write, merged)) is not None:
                return created, True

        def applied(old: Object) -> Object:
            return patches.apply(kind, old, patch, manager, force=force, subresource=write.subresource)

        return await writes.patch(write, "apply", applied), False

    def _check_applied(self, write: Write, patch: Object) -> None:
        kind = write.kind
        given = str(patch.get("apiVersion") or ""), str(patch.get("kind") or "")
        # Before settle_type, which fills in what is missing: an apply has to name its type.
        if given != (kind.api_version, kind.kind):
            raise errors.bad_request(f"invalid object type: {_spelled(*given)}")
        if object_at(patch, "metadata").get("managedFields") is not None:
            raise errors.bad_request("metadata.managedFields must be nil")
        payloads.settle_type(kind, patch)
        # A copy: decode() drops the unknown fields, but an apply with one is refused.
        unknown = self.registry.rules(kind).decode(copy(patch))
        if unknown:
            place = (
                f"{write.namespace if patch['metadata'].get('namespace') else ''}/{patch['metadata'].get('name', '')}"
            )
            subject = f"{place}; {_spelled(kind.api_version, kind.kind)}"
            message = f"failed to create typed patch object ({subject}): .{unknown[0]}: field not declared in schema"
            raise errors.StatusError(500, "", message)

    async def delete(
        self, kind: ResourceKind, namespace: str, name: str, caller: Caller, options: DeleteOptions = DEFAULT_DELETE
    ) -> Object:
        """Delete an object; returns its last state while it waits, otherwise the response (usually a Status)."""
        wanted = Deletion(self.backend, kind, namespace, caller, options, [], name)
        return copy(deletion.answer(kind, await deletion.delete(wanted)))

    async def bind(self, namespace: str, name: str, pod_uid: str, node: str, caller: Caller) -> None:
        """Put exactly this pod on a node, as ``pods/binding`` does for a scheduler.

        StatusError: 404 without it, 409 when it is another one, has a node, or is being deleted.
        """
        kind = self.kind("pods")

        def bound(old: Object) -> Object:
            if old["metadata"]["uid"] != pod_uid or "deletionTimestamp" in old["metadata"]:
                raise errors.conflict(kind, name, f"pod {name} is being deleted, cannot be assigned to a host")
            if old["spec"].get("nodeName"):
                why = f'pod {name} is already assigned to node "{old["spec"]["nodeName"]}"'
                raise errors.conflict(kind, name, why)
            new = copy(old)
            # A binding is based on no version: without one the write is retried on the newest state.
            del new["metadata"]["resourceVersion"]
            new["spec"]["nodeName"] = node
            conditions = new["status"].setdefault("conditions", [])
            conditions[:] = [current for current in conditions if current["type"] != "PodScheduled"]
            conditions.append(
                {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now()}
            )
            return new

        write = Write(self.backend, kind, namespace, caller, DEFAULT_WRITE, [], name, "binding")
        await writes.change(write, bound)


def _spelled(api_version: str, kind: str) -> str:
    """A type as Go's GroupVersionKind prints itself."""
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"
