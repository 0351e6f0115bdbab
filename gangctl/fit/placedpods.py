"""Pods that are on nodes, and the rules by which pods keep each other from nodes: host ports, and labels of pods.

Source: ``pkg/scheduler/framework/plugins`` of Kubernetes 1.37: nodeports, interpodaffinity, podtopologyspread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import object_at, objects_at, text_at
from gangctl.api.pods import REQUIRED, is_finished
from gangctl.api.requests import as_integers, pod_requests, resized_requests
from gangctl.api.volumes import volume_claims
from gangctl.kueue.blocked import selects
from gangctl.kueue.names import WORKLOAD
from gangctl.kueue.objects import PODS, Amounts, SelectorTerm
from gangctl.kueue.reading import read_selector
from gangctl.kueue.topology import REQUESTS

Labels = Mapping[str, str]
Selector = tuple[SelectorTerm, ...] | None
NamespaceLabels = Callable[[str], Labels | None]
Port = tuple[str, str, int]
"""Protocol, address and number."""

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 -- nothing listens here


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A required term of affinity or anti-affinity; ``namespaces`` is None for a namespaceSelector."""

    key: str
    selector: Selector
    namespaces: frozenset[str] | None
    namespace_selector: Selector = None

    def matches(self, namespace: str, labels: Labels, labels_of: NamespaceLabels, *, unknown: bool = False) -> bool:
        """Whether a pod is one that this is about; ``unknown`` if the labels of its namespace are not known."""
        if not selects(self.selector, labels):
            return False
        if self.namespaces is not None and namespace in self.namespaces:
            return True
        if self.namespace_selector is None:
            return False
        known = labels_of(namespace)
        return unknown if known is None and self.namespace_selector else selects(self.namespace_selector, known or {})


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint with ``whenUnsatisfiable: DoNotSchedule``."""

    key: str
    skew: int
    selector: Selector
    domains: int
    by_affinity: bool
    by_taints: bool


def texts(value: object) -> list[str]:
    """The texts of a list; none of another value."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _selector(raw: Mapping[str, Any], own: Labels) -> Selector:
    """With the pod's own values of ``matchLabelKeys``; as the API server does, keys that it lacks are ignored."""
    selector = read_selector(raw.get("labelSelector"))
    if selector is None:
        return None
    same = (SelectorTerm(key, "In", (own[key],)) for key in texts(raw.get("matchLabelKeys")) if key in own)
    other = (SelectorTerm(key, "NotIn", (own[key],)) for key in texts(raw.get("mismatchLabelKeys")) if key in own)
    return (*selector, *same, *other)


def pod_terms(spec: Mapping[str, Any], part: str, namespace: str, own: Labels) -> tuple[PodTerm, ...]:
    """The required terms of ``podAffinity`` or ``podAntiAffinity``."""
    terms = []
    for raw in objects_at(object_at(object_at(spec, "affinity"), part), REQUIRED):
        selected = read_selector(raw.get("namespaceSelector"))
        # Without both fields a term is about the pod's own namespace; an empty namespaceSelector selects all.
        named = texts(raw.get("namespaces")) or ([namespace] if raw.get("namespaceSelector") is None else ())
        terms.append(PodTerm(text_at(raw, "topologyKey"), _selector(raw, own), frozenset(named), selected))
    return tuple(terms)


def _positive(raw: Mapping[str, Any], key: str) -> int:
    value = raw.get(key)
    return value if isinstance(value, int) and value > 0 else 1


def spreads(spec: Mapping[str, Any], own: Labels) -> tuple[Spread, ...]:
    """The constraints that keep a pod from nodes."""
    return tuple(
        Spread(
            text_at(raw, "topologyKey"),
            _positive(raw, "maxSkew"),
            # An empty selector counts no pod here, unlike one of affinity (countPodsMatchSelector).
            _selector(raw, own) or None,
            _positive(raw, "minDomains"),
            # The defaults of the two policies differ: Honor for affinity, Ignore for taints.
            raw.get("nodeAffinityPolicy") != "Ignore",
            raw.get("nodeTaintsPolicy") == "Honor",
        )
        for raw in objects_at(spec, "topologySpreadConstraints")
        if raw.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    )


def host_ports(spec: Mapping[str, Any]) -> Iterator[Port]:
    """Ports of the node that a pod has for itself; with hostNetwork those of its containers."""
    # NodePorts ignores the ports of other init containers: they end before the containers start.
    sidecars = (
        init_container
        for init_container in objects_at(spec, "initContainers")
        if init_container.get("restartPolicy") == "Always"
    )
    for container in (*objects_at(spec, "containers"), *sidecars):
        for raw in objects_at(container, "ports"):
            port = raw.get("hostPort") or (raw.get("containerPort") if spec.get("hostNetwork") is True else 0)
            if isinstance(port, int) and port > 0:
                yield text_at(raw, "protocol") or "TCP", text_at(raw, "hostIP") or _ANY_ADDRESS, port


def ports_as_amounts(ports: Iterable[Port], all_ports: Collection[Port]) -> Amounts:
    """Ports as resources, of which each node has one: all addresses have the port of one that is for any."""
    amounts = {}
    for protocol, address, port in ports:
        others = {other for proto, other, number in all_ports if (proto, number) == (protocol, port)}
        for one in {_ANY_ADDRESS, *others} if address == _ANY_ADDRESS else {address}:
            suffix = "" if one == _ANY_ADDRESS else f" of {one}"
            amounts[f"{HOST_PORT}{port}/{protocol}{suffix}"] = 1
    return amounts


HOST_PORT: Final = "hostPort "


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod on its node; ``jobset`` is the name of its JobSet, or empty.

    ``in_topology`` is a pod that Kueue placed: its usage is also in its Workload. ``repels`` are its required terms of
    anti-affinity.
    """

    namespace: str
    jobset: str
    node: str
    requests: Amounts
    in_topology: bool
    labels: Labels
    ports: tuple[Port, ...] = ()
    repels: tuple[PodTerm, ...] = ()
    deleting: bool = False
    name: str = ""
    created: str = ""
    """RFC 3339."""
    claims: tuple[str, ...] = ()
    """Of volumes."""
    resized: Amounts | None = None
    """What the scheduler counts in the place of ``requests``, while it is being resized; Kueue does not."""
    priority: int | None = None
    """None if unknown, as in files that no API server has written."""
    workload: str = ""
    """Kueue's, of one in a topology."""


def placed_pods(raw: Mapping[str, Any]) -> Iterator[PlacedPod]:
    """The pod, if it uses capacity of a node. Invalid requests count as 0."""
    node = text_at(object_at(raw, "spec"), "nodeName")
    if node and not is_finished(raw):
        yield _on(node, raw)


def nominated_pods(raw: Mapping[str, Any]) -> Iterator[PlacedPod]:
    """The pod on the node that kube-scheduler has nominated it for, if it is on none yet."""
    node = text_at(object_at(raw, "status"), "nominatedNodeName")
    if node and not text_at(object_at(raw, "spec"), "nodeName") and not is_finished(raw):
        yield _on(node, raw)


def _on(node: str, raw: Mapping[str, Any]) -> PlacedPod:
    metadata, spec = object_at(raw, "metadata"), object_at(raw, "spec")
    namespace = text_at(metadata, "namespace")
    labels = {key: text for key, text in object_at(metadata, "labels").items() if isinstance(text, str)}
    resized = resized_requests(raw)
    return PlacedPod(
        namespace,
        labels.get(JOBSET_NAME, ""),
        node,
        as_integers(pod_requests(spec)[0]),
        not REQUESTS.isdisjoint(object_at(metadata, "annotations")),
        labels,
        tuple(host_ports(spec)),
        # A cluster has very many pods, and few of them have an affinity.
        pod_terms(spec, "podAntiAffinity", namespace, labels) if spec.get("affinity") else (),
        bool(metadata.get("deletionTimestamp")),
        text_at(metadata, "name"),
        text_at(metadata, "creationTimestamp"),
        tuple(claim for _, claim in volume_claims(spec)),
        None if resized is None else as_integers(resized),
        priority if isinstance(priority := spec.get("priority"), int) else None,
        text_at(object_at(metadata, "annotations"), WORKLOAD),
    )


def in_use(pods: Iterable[PlacedPod], without: Callable[[PlacedPod], bool] = lambda _: False) -> dict[str, Amounts]:
    """Requests on each node, by its name, except some pods."""
    used: dict[str, Counter[str]] = {}
    for pod in pods:
        if not without(pod):
            used.setdefault(pod.node, Counter()).update({**pod.requests, PODS: 1})
    return dict(used)
