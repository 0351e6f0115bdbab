"""The rights in the manifests one by one: what was granted, what was used, and a cluster in which one is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Final

from tests.controlplane.api import ApiClient, Object, path_of
from tests.controlplane.audit_log import is_write
from tests.controlplane.wait import read_until
from tests.live.gangctl import OWN_NAMESPACE
from tests.manifests.files import documents
from tests.manifests.rbac import RBAC

_REVIEWS: Final = path_of("authorization.k8s.io/v1", "subjectaccessreviews")
_AUTHORIZATION: Final = "rbac.authorization.k8s.io/v1"
_TRIES: Final = 20
_SECONDS: Final = 0.5
"""After so many tries, one in so many seconds at most; the shortest period is that of a discovery that fails."""


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource, from one role; ``name`` where it is for one object only."""

    kind: str
    role: str
    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, (self.role, self.resource, self.name, self.verb)))

    def covers(self, entry: Object) -> bool:
        """Whether an audited request needs this right."""
        reference = entry.get("objectRef", {})
        resource = "/".join(filter(None, (reference.get("resource"), reference.get("subresource"))))
        asked = (reference.get("apiGroup", ""), resource, entry["verb"])
        at_home = self.kind == "ClusterRole" or reference.get("namespace") == OWN_NAMESPACE
        return (
            asked == (self.group, self.resource, self.verb) and at_home and self.name in {"", reference.get("name", "")}
        )

    @property
    def words(self) -> str:
        """The error of the API server when it is missing."""
        return f'cannot {self.verb} resource "{self.resource}" in API group "{self.group}"'


def _rights(role: Object) -> Iterator[Right]:
    # An aggregated role's are those of others.
    for rule in role.get("rules") or []:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or ("",):
                        yield Right(role["kind"], role["metadata"]["name"], group, resource, verb, name)


def granted(*, registration: bool = False) -> frozenset[Right]:
    """Every right in ``manifests/rbac``, or in its part for a process that registers itself."""
    directory = RBAC / "registration" if registration else RBAC
    roles = [body for body in documents(directory) if body["kind"] in {"ClusterRole", "Role"}]
    return frozenset(right for role in roles for right in _rights(role))


async def known(api: ApiClient, user: str, rights: Iterable[Right]) -> None:
    """Wait until the authorizer of the API server has seen that ``user`` has these rights."""
    for right in rights:
        await _until(api, user, right, allowed=True)


def used(rights: Iterable[Right], requests: Iterable[Object]) -> frozenset[Right]:
    """Those of the rights that requests needed."""
    entries = list(requests)
    return frozenset(right for right in rights if any(right.covers(entry) for entry in entries))


def refusals(requests: Iterable[Object]) -> list[Object]:
    """Requests that were refused for want of a right, each once: the audit log has the start of a watch, too."""
    ended = (request for request in requests if request["stage"] == "ResponseComplete")
    return [r for r in ended if r.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"]


def not_in_a_loop(refused: Iterable[Object], audited: Iterable[Object]) -> None:
    """Requests that were refused are tried again with growing delays, once in a period, or when something has changed.

    By the clock of the API server: who waits between two requests can only be later than that. ``audited`` is all that
    was asked of it meanwhile: every object that somebody writes may be a reason to look at once.
    """
    times = sorted(datetime.fromisoformat(entry["requestReceivedTimestamp"]) for entry in refused)
    passed = (times[-1] - times[0]).total_seconds()
    changes = sum(map(_is_change, audited))
    after = [f"{(at - times[0]).total_seconds():.3f}" for at in times]
    assert len(times) <= _TRIES + passed / _SECONDS + changes, f"{changes} changes, requests after seconds: {after}"


def _is_change(entry: Object) -> bool:
    """Whether something was written that gangctl may watch; its own events are not."""
    reported = is_write(entry) and entry.get("objectRef", {}).get("resource") != "events"
    return reported and entry["responseStatus"]["code"] < HTTPStatus.BAD_REQUEST


@asynccontextmanager
async def missing(api: ApiClient, user: str, rights: Iterable[Right], suffix: str = "") -> AsyncIterator[None]:
    """A cluster in which ``user`` lacks these rights; ``suffix`` is that of the names of the user's roles."""
    async with AsyncExitStack() as stack:
        for right in rights:
            await stack.enter_async_context(_missing(api, user, right, suffix))
        yield


@asynccontextmanager
async def _missing(api: ApiClient, user: str, right: Right, suffix: str) -> AsyncIterator[None]:
    namespace = OWN_NAMESPACE if right.kind == "Role" else None
    path = path_of(_AUTHORIZATION, f"{right.kind.lower()}s", namespace=namespace, name=right.role + suffix)
    role = await api.get(path)
    rules = [each for rule in role["rules"] for each in _without(rule, right)]
    await api.patch(path, {"rules": rules})
    await _until(api, user, right, allowed=False)
    try:
        yield
    finally:
        await api.patch(path, {"rules": role["rules"]})
        await _until(api, user, right, allowed=True)


def _without(rule: Object, right: Right) -> list[Object]:
    """The rule as one to three rules that grant the same but for this right."""
    names = rule.get("resourceNames") or [""]
    concerned = right.group in rule["apiGroups"] and right.resource in rule["resources"] and right.verb in rule["verbs"]
    if not concerned or right.name not in names:
        return [rule]
    others = {**rule, "resources": [name for name in rule["resources"] if name != right.resource]}
    rest = {**rule, "resources": [right.resource], "verbs": [verb for verb in rule["verbs"] if verb != right.verb]}
    found = [each for each in (others, rest) if each["resources"] and each["verbs"]]
    if left := [name for name in names if name != right.name]:
        found.append({**rule, "resources": [right.resource], "verbs": [right.verb], "resourceNames": left})
    return found


async def _until(api: ApiClient, user: str, right: Right, *, allowed: bool) -> None:
    """Wait until the authorizer of the API server has seen the change."""
    resource, _, subresource = right.resource.partition("/")
    attributes = {"group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb}
    attributes |= {"name": right.name, "namespace": OWN_NAMESPACE if right.kind == "Role" else ""}
    groups = ["system:authenticated"]
    review: Object = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    review["spec"] = {"user": user, "groups": groups, "resourceAttributes": attributes}

    await read_until(
        lambda: api.create(_REVIEWS, review),
        lambda answer: answer["status"]["allowed"] is allowed,
        f"{right} to be {'granted' if allowed else 'gone'}",
    )
