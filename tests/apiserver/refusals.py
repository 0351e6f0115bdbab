"""What is refused of the Jobs of a JobSet because of its pods."""

from __future__ import annotations

from typing import Any, Final

from gangctl.apiserver.create import create
from tests.controlplane.api import Object
from tests.jobsets import jobset, rj

_POD: Final = "spec.replicatedJobs[0].template.spec.template.spec."
_SHORT: Final = {
    "FieldValueRequired": "required",
    "FieldValueInvalid": "invalid",
    "FieldValueNotSupported": "unsupported",
    "FieldValueForbidden": "forbidden",
    "FieldValueNotFound": "not found",
}


def refusals(fragment: Object) -> list[str]:
    """Reasons and fields of a pod with these fields; ``container`` has those of its container."""
    own = dict(fragment)
    pod = {"containers": [{"name": "c", "image": "i", **own.pop("container", {})}], **own}
    created = create(jobset("js", rj("w", 1, 2, 2, pod=pod)))
    assert not created.refused
    assert not created.unknown
    return sorted({f"{_SHORT[cause.reason]} {cause.field.removeprefix(_POD)}" for cause in created.jobs})


def container(**fields: Any) -> Object:
    """A pod whose container has these fields."""
    return {"container": fields}
