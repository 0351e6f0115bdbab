"""Everything that a user can read through an API server, by resource: also what may be read but not listed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.controlplane.api import ApiClient, Object, path_of

Texts = Mapping[str, list[str]]
"""Answers by place: ``events``, ``jobsets.jobset.x-k8s.io``."""

_REVIEWS: Final = path_of("authorization.k8s.io/v1", "selfsubjectrulesreviews")
_AT_ONCE: Final = 16
_INTO_PODS: Final = {"attach", "exec", "portforward", "proxy"}
"""Subresources that lead into what a container serves."""


@dataclass(frozen=True)
class Kind:
    """A resource, or a subresource, of one API version that can be read."""

    root: str
    group: str
    name: str
    namespaced: bool
    listed: bool

    @property
    def place(self) -> str:
        """The resource and its group; the two APIs of events have the same objects."""
        return ".".join(part for part in (self.name.partition("/")[0], self.group) if part not in {"", "events.k8s.io"})

    def path(self, namespace: str = "", name: str = "") -> str:
        """Path of the collection, or of an object."""
        resource, _, subresource = self.name.partition("/")
        middle = f"namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(part for part in (self.root, middle, resource, name, subresource if name else "") if part)


@dataclass
class Readable:
    """What there is on a plane, as its administrator sees it."""

    kinds: list[Kind] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    names: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Namespace and name of every object, by place."""

    @classmethod
    async def on(cls, api: ApiClient) -> Readable:
        """Look at everything once: what is created later is not asked for by name."""
        made = cls([kind async for kind in _kinds(api)])
        for kind in made.kinds:
            if kind.listed and kind.place not in made.names:
                objects = [each["metadata"] for each in await api.list(kind.path())]
                made.names[kind.place] = [(each.get("namespace", ""), each["name"]) for each in objects]
        made.namespaces = [name for _, name in made.names["namespaces"]]
        return made

    async def by(self, client: ApiClient) -> Texts:
        """All answers to a user other than a refusal."""
        paths: dict[str, str] = {kind.path(): kind.place for kind in self.kinds if kind.listed}
        for namespace in self.namespaces:
            rules = await rules_of(client, namespace)
            for rule in rules["resourceRules"]:
                for kind in self.kinds:
                    paths |= dict.fromkeys(self._granted(rule, kind, namespace), kind.place)
            for rule in rules["nonResourceRules"]:
                paths |= {url.rstrip("*"): "server" for url in rule["nonResourceURLs"]}
        texts = defaultdict(list)
        turn = asyncio.Semaphore(_AT_ONCE)

        async def ask(path: str, place: str) -> None:
            async with turn:
                answer = await client.exchange("GET", path)
            if answer.status != 403:
                texts[place].append(answer.text)

        await asyncio.gather(*(ask(path, place) for path, place in paths.items()))
        return texts

    def _granted(self, rule: Object, kind: Kind, namespace: str) -> Iterator[str]:
        """The paths that a rule of a namespace opens."""
        if not _covers(rule["apiGroups"], kind.group) or not _covers(rule["resources"], kind.name):
            return
        if kind.listed and _covers(rule["verbs"], "list"):
            yield kind.path(namespace)
        elif _covers(rule["verbs"], "get"):
            for home, name in self.names.get(kind.place, ()):
                if home in {"", namespace} and name in (rule.get("resourceNames") or [name]):
                    yield kind.path(home, name)


async def rules_of(client: ApiClient, namespace: str) -> Object:
    """The status of a SelfSubjectRulesReview: the rules of the user in a namespace, those of the cluster included."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    rules: Object = (await client.create(_REVIEWS, {**review, "spec": {"namespace": namespace}}))["status"]
    assert not rules["incomplete"], rules
    return rules


def _covers(granted: list[str], wanted: str) -> bool:
    return wanted in granted or "*" in granted


async def _kinds(api: ApiClient) -> AsyncIterator[Kind]:
    roots = {"/api/v1": ""}
    for group in (await api.get("/apis"))["groups"]:
        roots |= {f"/apis/{each['groupVersion']}": group["name"] for each in group["versions"]}
    for root, name in roots.items():
        for each in (await api.get(root))["resources"]:
            if {"get", "list"} & {*each["verbs"]} and each["name"].rpartition("/")[2] not in _INTO_PODS:
                yield Kind(root, name, each["name"], each["namespaced"], "list" in each["verbs"])
