"""Kueue's objects, nodes and pods from files, with the errors that an API server would refuse them for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import click

from gangctl.api.documents import Document
from gangctl.api.objects import Object, kind_of, misshapen
from gangctl.api.pods import HOSTNAME
from gangctl.cli.inputs import Seen, in_namespace, is_again, note_skipped, read_documents, repeated
from gangctl.cli.messages import errors_in
from gangctl.cli.options import ClusterFlags
from gangctl.cluster import kinds
from gangctl.cluster.stock import Stock
from gangctl.errors import InputError, shown
from gangctl.kueue.amounts import read_quantity
from gangctl.kueue.names import API_VERSION

_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "ClusterQueue": frozenset(
        {
            *("admissionChecksStrategy", "admissionScope", "cohortName", "concurrentAdmissionPolicy", "fairSharing"),
            *("flavorFungibility", "namespaceSelector", "preemption", "queueingStrategy", "resourceGroups"),
            "stopPolicy",
        }
    ),
    "Cohort": frozenset({"fairSharing", "parentName", "resourceGroups"}),
    "LocalQueue": frozenset({"clusterQueue", "fairSharing", "stopPolicy"}),
    "ResourceFlavor": frozenset({"nodeLabels", "nodeTaints", "tolerations", "topologyName"}),
    "Topology": frozenset({"levels"}),
}
"""Fields of ``spec`` in v1beta2: a file was not checked by a schema, and the older ``cohort`` would be ignored."""
# MaxItems of spec.levels in Kueue's definition.
_MOST_LEVELS: Final = 16
_QUOTAS: Final = ("nominalQuota", "borrowingLimit", "lendingLimit")


def check_alone(cluster: ClusterFlags) -> None:
    """Refuse a cluster beside the files of ``--queues``."""
    if cluster.given:
        raise click.UsageError("--queues stands in for a cluster: leave it out, or --kubeconfig and --context")


def check_stdin(filenames: Sequence[str], queue_files: Sequence[str]) -> None:
    """Refuse to read JobSets and queues from one stdin."""
    if "-" in filenames and "-" in queue_files:
        raise click.UsageError("stdin can be only one of -f and --queues")


def read_stock(filenames: Sequence[str], namespace: str | None = None) -> Stock:
    """The objects of files, as with :func:`stock_of`."""
    return stock_of(read_documents(filenames), namespace)


def stock_of(documents: Iterable[Document], namespace: str | None = None) -> Stock:
    """The objects of documents; other kinds are skipped with a note; InvalidInputError with all errors.

    Those that name no namespace are in ``namespace``, or in ``default``.
    """
    stock = Stock()
    lines: list[str] = []
    others: list[Document] = []
    seen: Seen = {}
    for document in documents:
        raw = in_namespace(document.value, namespace)
        problems = list(_problems(document, raw))
        if not problems and not is_again(raw, seen):
            try:
                kept = stock.take_raw(raw)
            except InputError as error:
                problems.append(f"{document.where()}: {error}")
            else:
                if not kept:
                    others.append(document)
                problems += repeated(document, raw, seen) if kept else []
        lines += problems
    if lines:
        raise errors_in("the queues' files", lines)
    note_skipped(others)
    stock.note_files_end()
    stock.topologies_known = any(kind == "Topology" for _, kind, _, _ in seen)
    return stock


def _problems(document: Document, raw: Object) -> Iterator[str]:
    """Errors that the API server would reject, if they would make a result wrong."""
    if kinds.is_skipped(raw):
        return
    if path := misshapen(raw):
        yield f"{document.where(path)}: {path}: has the wrong type"
        return
    group, kind = kind_of(raw)
    if raw.get("apiVersion") != API_VERSION or (group, kind) not in kinds.READERS:
        return
    spec = raw.get("spec")
    known = _FIELDS.get(kind)
    for name in (spec or {}) if known else ():
        if name not in (known or ()):
            yield f"{document.where(f'spec.{name}')}: spec.{name}: {kind} of {API_VERSION} has no such field"
    yield from _quota_problems(document, spec or {})
    if kind == "ResourceFlavor":
        labels = (spec or {}).get("nodeLabels")
        for name, value in labels.items() if isinstance(labels, dict) else ():
            if not isinstance(value, str):
                path = f"spec.nodeLabels.{name}"
                yield f"{document.where(path)}: {path}: {shown(value)} is not a string; put it in quotes"
    if kind == "Topology":
        yield from _level_problems(document, spec or {})


def _level_problems(document: Document, spec: Object) -> Iterator[str]:
    """Levels that the API server rejects."""
    levels = spec.get("levels")
    if not isinstance(levels, list) or not 1 <= len(levels) <= _MOST_LEVELS:
        where = document.where("spec.levels")
        yield f"{where}: spec.levels: needs 1 to {_MOST_LEVELS} objects with nodeLabel, the widest level first"
        return
    seen: set[str] = set()
    for number, level in enumerate(levels):
        path = f"spec.levels[{number}]"
        label = level.get("nodeLabel") if isinstance(level, dict) else None
        if not isinstance(label, str) or not label:
            yield f"{document.where(path)}: {path}: needs nodeLabel, the key of a node label"
        elif label in seen:
            yield f"{document.where(path)}: {path}.nodeLabel: {shown(label)} is a level already; name each once"
        elif label == HOSTNAME and number < len(levels) - 1:
            yield f"{document.where(path)}: {path}.nodeLabel: {HOSTNAME} can only be the last level"
        else:
            seen.add(label)


def _quota_problems(document: Document, spec: Object) -> Iterator[str]:
    for path, entry in _entries(spec.get("resourceGroups"), "spec.resourceGroups"):
        for flavor_path, flavor in _entries(entry.get("flavors"), f"{path}.flavors"):
            for resource_path, resource in _entries(flavor.get("resources"), f"{flavor_path}.resources"):
                for name in _QUOTAS:
                    value = resource.get(name)
                    if value is not None and read_quantity(value) is None:
                        where = document.where(f"{resource_path}.{name}")
                        yield f"{where}: {resource_path}.{name}: {shown(value)} is not a quantity"


def _entries(value: object, path: str) -> Iterator[tuple[str, Object]]:
    entries: Iterable[object] = value if isinstance(value, list) else ()
    return ((f"{path}[{index}]", entry) for index, entry in enumerate(entries) if isinstance(entry, dict))
