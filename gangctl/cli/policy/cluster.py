"""What a cluster holds that policies are made of and evaluated by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gangctl.api.documents import Document, parse_documents
from gangctl.api.emit import to_yaml
from gangctl.api.objects import Object, object_at
from gangctl.api.scheduling import NEWEST, Generation
from gangctl.cli.inputs import DEFAULT_NAMESPACE
from gangctl.cli.messages import note
from gangctl.cli.policy.bundle import Bundle, sort_documents
from gangctl.cli.policy.requests import FileCatalogue
from gangctl.client.client import Client, Selection
from gangctl.client.resources import NAMESPACES, VALIDATING_WEBHOOK_CONFIGURATIONS, Resource
from gangctl.controllers.discovery import served_resources
from gangctl.controllers.policy_sources import GANG_POLICIES, GANG_POLICY_EXCEPTIONS
from gangctl.errors import ApiError, ClusterUnavailableError, ForbiddenError, NotFoundError
from gangctl.gang.generation import pick_generation
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.review import EVALUATED
from gangctl.policy.variables import Scope
from gangctl.webhooks.configurations import NAME as WEBHOOKS_NAME


async def all_of(client: Client, resource: Resource, *, needed: bool = False) -> list[Object]:
    """Every object of a resource, with its type; none where the resource is not served, or ClusterUnavailableError."""
    try:
        page = await client.list(resource)
    except NotFoundError as error:
        if not needed:
            return []
        raise ClusterUnavailableError(
            f"the cluster does not have {resource.qualified_name}", hint="kubectl apply -k manifests/policies/crds"
        ) from error
    return [typed(item, resource) for item in page.items]


def typed(item: Object, resource: Resource) -> Object:
    """An item of a list with its type, and without who wrote which field."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata, "apiVersion": resource.api_version, "kind": resource.kind}


async def policies_of(client: Client) -> list[Object]:
    """The GangPolicies; ClusterUnavailableError where they are not served."""
    return await all_of(client, GANG_POLICIES, needed=True)


async def rules_of(client: Client) -> Bundle:
    """GangPolicies and their exceptions; ForbiddenError if either may not be read: then no verdict is certain."""
    return bundle_of([*await policies_of(client), *await all_of(client, GANG_POLICY_EXCEPTIONS)])


def bundle_of(objects: Iterable[Object]) -> Bundle:
    """Objects of the cluster as documents."""
    documents: list[Document] = []
    for obj in objects:
        # As if it had been read from a file of the name that kubectl has for it.
        documents += parse_documents(to_yaml([obj]), f"{str(obj['kind']).lower()}/{obj['metadata']['name']}")
    return sort_documents(documents)


async def namespaces_of(client: Client) -> dict[str, Object]:
    """Namespaces by name."""
    return {str(obj["metadata"]["name"]): obj for obj in await all_of(client, NAMESPACES)}


async def evaluated_in(client: Client) -> Sequence[Mapping[str, Any]]:
    """``matchExpressions`` of the namespaces that gangctl evaluates there, as its webhook has them.

    Those that every gangctl has where the webhook is not there, or may not be read.
    """
    try:
        stored = await client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, WEBHOOKS_NAME)
    except (NotFoundError, ForbiddenError):
        return EVALUATED
    selectors = (object_at(hook, "namespaceSelector").get("matchExpressions") for hook in stored.get("webhooks") or ())
    return next(filter(None, selectors), EVALUATED)


async def generation_of(client: Client) -> Generation:
    """The generation of the scheduling API that gangs are planned for: what is served, else the newest."""
    state = pick_generation(await served_resources(client))
    if state.generation is None:
        note(f"gangs are planned for Kubernetes {NEWEST.kubernetes}: {state.reason}")
        return NEWEST
    return state.generation


async def parameters_of(
    client: Client, policies: Sequence[LoadedPolicy], files: Sequence[Object] = ()
) -> FileCatalogue:
    """The parameter objects that policies may read, those of ``files`` before those of the cluster.

    A kind that cannot be read is reported, and unknown where no file has one.
    """
    objects = {_identity(obj): obj for obj in files}
    scopes = _scopes(files, policies)
    for policy in policies:
        kind, reference = policy.spec.param_kind, policy.spec.param_ref
        if kind is None or reference is None:
            continue
        # The one object that it names: it takes no right to read others.
        if (kind.api_version, kind.kind, reference.namespace, reference.name) in objects:
            continue
        try:
            resource = await _resource(client, kind.api_version, kind.kind)
            if resource is None:
                note(f"{policy.name}: the cluster does not know {kind.kind} of {kind.api_version}")
                continue
            selection = Selection(field_selector=f"metadata.name={reference.name}" if reference.name else None)
            # Without a namespace the parameters are in that of each JobSet: all are read.
            page = await client.list(resource, reference.namespace or None, selection=selection)
        except ApiError as error:
            note(f"{policy.name}: cannot read {kind.kind}: {error}")
            continue
        scopes[kind.api_version, kind.kind] = "Namespaced" if resource.namespaced else "Cluster"
        for item in page.items:
            param = typed(item, resource)
            objects.setdefault(_identity(param), param)
    return FileCatalogue(objects.values(), scopes=scopes)


def _identity(obj: Object) -> tuple[str, str, str, str]:
    metadata = object_at(obj, "metadata")
    place = str(metadata.get("namespace") or DEFAULT_NAMESPACE)
    return str(obj.get("apiVersion")), str(obj.get("kind")), place, str(metadata.get("name"))


def _scopes(files: Sequence[Object], policies: Sequence[LoadedPolicy]) -> dict[tuple[str, str], Scope]:
    """Of the kinds of files, as far as those and the policies say it."""
    written = FileCatalogue(files, policies=policies)
    kinds = {_identity(obj)[:2] for obj in files}
    return {kind: scope for kind in kinds if (scope := written.scope(*kind)) is not None}


async def _resource(client: Client, api_version: str, kind: str) -> Resource | None:
    group, _, version = api_version.rpartition("/")
    for entry in await client.discovery.resources(group, version):
        name: Any = entry.get("name")
        # A subresource, such as ``x/status``, may have the kind of its parent.
        if entry.get("kind") == kind and isinstance(name, str) and "/" not in name:
            return Resource(group, version, name, kind, namespaced=entry.get("namespaced") is True)
    return None
