"""Rows of what is refused of the Jobs of a JobSet because of its pods, and what gangctl says of one.

A row is a pod that is refused, the reasons and fields, and the nearest pod that is accepted. API servers
evaluate the tables, too (tests/conformance/test_pod_templates.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gangctl.apiserver.create import create
from tests.controlplane.api import Object
from tests.jobsets import jobset, rj

Row = tuple[Object, str | list[str], Object]
_POD: Final = "spec.replicatedJobs[0].template.spec.template.spec."
_SHORT: Final = {
    "FieldValueRequired": "required",
    "FieldValueInvalid": "invalid",
    "FieldValueNotSupported": "unsupported",
    "FieldValueForbidden": "forbidden",
    "FieldValueNotFound": "not found",
    "FieldValueDuplicate": "duplicate",
    "FieldValueTooMany": "too many",
    "FieldValueTooLong": "too long",
}


def pod_of(fragment: Object) -> Object:
    """The spec of a pod with these fields; ``container`` has those of its container."""
    own = dict(fragment)
    return {"containers": [{"name": "c", "image": "i", **own.pop("container", {})}], **own}


def shown(causes: Iterable[tuple[str, str]], path: str) -> list[str]:
    """Reasons and fields as rows have them; ``path`` is that of the spec of the pods."""
    return sorted({f"{_SHORT[reason]} {field.removeprefix(path)}" for reason, field in causes})


def listed(fields: str | list[str]) -> list[str]:
    """The second part of a row."""
    return [fields] if isinstance(fields, str) else fields


def refusals(fragment: Object) -> list[str]:
    """What gangctl says is refused of the Jobs of a JobSet with such pods."""
    created = create(jobset("js", rj("w", 1, 2, 2, pod=pod_of(fragment))))
    assert not created.refused
    assert not created.unknown
    return shown(((cause.reason, cause.field) for cause in created.jobs), _POD)


def container(**fields: Any) -> Object:
    """A pod whose container has these fields."""
    return {"container": fields}
