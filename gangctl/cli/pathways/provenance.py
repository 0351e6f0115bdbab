"""Each field of a rendered JobSet with its value and where that came from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from gangctl.api.documents import Document
from gangctl.api.meta import API_VERSION
from gangctl.cli.inputs import where
from gangctl.cli.messages import plural
from gangctl.cli.output import Section
from gangctl.cli.pathways.report import ORIGINS, FieldReport, OriginReport, PathwaysOrigins
from gangctl.cli.pathways.subjects import RenderedSubject, lies_in
from gangctl.errors import one_line
from gangctl.pathways.result import Origin, OriginKind, leaves

_SHOWN: Final = 72
"""Characters of a value for a person; ``-o json`` has all of it."""
_REPLICATED_JOB: Final = re.compile(r"spec\.replicatedJobs\[(?P<index>\d+)\]\.?")
_POD: Final = "template.spec.template."
_CONTAINER: Final = re.compile(r"spec\.(?P<list>initContainers|containers)\[(?P<index>\d+)\]\.?")


def fields_of(subject: RenderedSubject, prefixes: Sequence[str] = ()) -> list[FieldReport]:
    """The fields in their order, those that lie in one of ``prefixes`` where there are any."""
    rendering = subject.rendering
    return [
        {"path": path, "value": value, "origin": _origin(subject.document, rendering.origins[path])}
        for path, value, _ in leaves(rendering.jobset)
        if not prefixes or any(lies_in(path, prefix) for prefix in prefixes)
    ]


def _origin(document: Document | None, origin: Origin) -> OriginReport:
    at = where(document, origin.place) if document is not None and origin.kind is OriginKind.FIELD else ""
    return {"kind": origin.kind.value, "place": origin.place, "why": origin.why, "at": at}


def origins_data(subject: RenderedSubject, fields: list[FieldReport]) -> PathwaysOrigins:
    """What ``-o json`` prints for one PathwaysJob."""
    return {
        "apiVersion": API_VERSION,
        "kind": ORIGINS,
        "metadata": {"name": subject.name, "namespace": subject.namespace},
        "fields": fields,
    }


def origins_sections(subject: RenderedSubject, fields: Iterable[FieldReport]) -> list[Section]:
    """One for the JobSet, one for each of its two jobs and pods, and one for each container.

    Paths are longer than columns may be: a line for each field, and one for where its value is from.
    """
    jobset = subject.rendering.jobset
    groups: dict[str, list[tuple[str, FieldReport]]] = {}
    for field in fields:
        title, short = _place(field["path"], jobset)
        groups.setdefault(title, []).append((short, field))
    count = sum(map(len, groups.values()))
    head = Section(f"JobSet {subject.title}: {plural(count, 'field')}")
    return [head, *(Section(title, tuple(_lines(members))) for title, members in groups.items())]


def _lines(fields: Iterable[tuple[str, FieldReport]]) -> Iterator[str]:
    """Each field with its value; what neighbours have in common, their origin, stands once below them."""
    for source, members in groupby(fields, key=lambda named: _from(named[1]["origin"])):
        for short, field in members:
            value = field["value"]
            text = value if isinstance(value, str) and value else json.dumps(value)
            yield f"{short}: {one_line(text, _SHOWN)}"
        yield f"    <- {source}"


def _place(path: str, jobset: Any) -> tuple[str, str]:
    """The table that a field belongs to, and its path from there."""
    match = _REPLICATED_JOB.match(path)
    if match is None:
        return "JobSet", path
    job = jobset["spec"]["replicatedJobs"][int(match["index"])]
    rest = path[match.end() :]
    if not rest.startswith(_POD):
        return f"{job['name']}: job", rest
    rest = rest.removeprefix(_POD)
    container = _CONTAINER.match(rest)
    if container is None:
        return f"{job['name']}: pod", rest
    entry = job["template"]["spec"]["template"]["spec"][container["list"]][int(container["index"])]
    kind = "init container" if container["list"] == "initContainers" else "container"
    return f"{job['name']}: {kind} {entry['name']}", rest[container.end() :]


_PREFIXES: Final = {
    OriginKind.OPTION: "option ",
    OriginKind.DEFAULT: "default of ",
    OriginKind.TABLE: "accelerator ",
}


def _from(origin: OriginReport) -> str:
    """In words: the place with its line, and why where that is not plain."""
    kind = OriginKind(origin["kind"])
    place = "rule" if kind is OriginKind.RULE else f"{_PREFIXES.get(kind, '')}{origin['place']}"
    at = f" ({origin['at']})" if origin["at"] else ""
    return ": ".join(part for part in (f"{place}{at}", origin["why"]) if part)
