"""Tables of objects: which form a client asks for, and its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from aiohttp import web

from gangctl.sandbox.kinds import JOBSET_GROUP, ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules.definitions import DEFINITIONS, version_of
from gangctl.sandbox.store import EVENTS, Store, Stored, to_storage
from gangctl.sandbox.tables import core, workloads
from gangctl.sandbox.tables.columns import JOBSET_COLUMNS, NAME, Printer, printer_of

_GROUP: Final = "meta.k8s.io"
_DEFINITIONS_HAVE_NO_COLUMNS: Final = frozenset({"1.35", "1.36"})


class Tables:
    """Makes the tables of one request."""

    def __init__(self, store: Store, minor: str, kind: ResourceKind, *, whole: bool) -> None:
        """``store`` has the definitions of custom resources, which name their columns; ``whole`` rows have objects."""
        self._kind = kind
        self._whole = whole
        self._printer = _printer(store, minor, kind)

    def of(self, items: Iterable[Stored], metadata: Object, *, headers: bool = True) -> Object:
        """A table with the ``metadata`` of a list or an object; later tables of a watch have no ``headers``."""
        named = self._kind.storage != EVENTS
        columns = (NAME, *self._printer.columns) if named else self._printer.columns
        return {
            "kind": "Table",
            "apiVersion": f"{_GROUP}/v1",
            "metadata": metadata,
            "columnDefinitions": [column.as_json() for column in columns] if headers else None,
            "rows": [self._row(stored.obj, named=named) for stored in items],
        }

    def of_one(self, stored: Stored, *, headers: bool = True) -> Object:
        """The table of one object."""
        revision = (stored.obj.get("metadata") or {}).get("resourceVersion", "")
        return self.of([stored], {"resourceVersion": revision}, headers=headers)

    def _row(self, obj: Object, *, named: bool) -> Object:
        cells = self._printer.cells(obj if named else to_storage(self._kind, obj))
        partial = {"kind": "PartialObjectMetadata", "apiVersion": f"{_GROUP}/v1", "metadata": obj.get("metadata")}
        row: Object = {
            "cells": [(obj.get("metadata") or {}).get("name", ""), *cells] if named else cells,
            "object": obj if self._whole else partial,
        }
        if self._kind.storage == "pods" and (conditions := workloads.row_conditions(obj)):
            row["conditions"] = conditions
        return row


def tables_for(store: Store, minor: str, kind: ResourceKind, request: web.BaseRequest) -> Tables | None:
    """What makes the tables of ``request``; None where its client prefers objects."""
    for clause in request.headers.get("Accept", "").split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        given = dict(part.partition("=")[::2] for part in rest)
        if media_type != "application/json":
            continue
        if "as" not in given:
            return None
        if (given["as"], given.get("g"), given.get("v")) == ("Table", _GROUP, "v1"):
            return Tables(store, minor, kind, whole=request.query.get("includeObject") == "Object")
    return None


def _printer(store: Store, minor: str, kind: ResourceKind) -> Printer:
    if kind.custom:
        return printer_of(_columns(store, kind))
    if kind.storage == EVENTS:
        return core.EVENTS
    if kind.storage == "podgroups.scheduling.k8s.io":
        return workloads.POD_GROUPS[kind.version]
    if kind.storage == DEFINITIONS:
        return core.DEFAULT if minor in _DEFINITIONS_HAVE_NO_COLUMNS else core.DEFINITIONS
    return core.PRINTERS.get(kind.storage) or workloads.PRINTERS.get(kind.storage) or core.DEFAULT


def _columns(store: Store, kind: ResourceKind) -> Sequence[Object] | None:
    version = version_of(store, kind)
    if version is None:
        return JOBSET_COLUMNS if kind.group == JOBSET_GROUP else None
    return version.get("additionalPrinterColumns")
