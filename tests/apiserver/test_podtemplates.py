"""What the API server refuses of pod templates, each beside the nearest that it accepts (validation.go of 1.37.2)."""

from __future__ import annotations

from typing import Any, Final

from gangctl.apiserver.create import create
from tests.controlplane.api import Object
from tests.jobsets import jobset, rj
from tests.rows import each

_POD: Final = "spec.replicatedJobs[0].template.spec.template.spec."
_SHORT: Final = {
    "FieldValueRequired": "required",
    "FieldValueInvalid": "invalid",
    "FieldValueNotSupported": "unsupported",
    "FieldValueForbidden": "forbidden",
    "FieldValueNotFound": "not found",
}


def _refusals(fragment: Object) -> list[str]:
    """What is refused of a pod with these fields; ``container`` has those of its container."""
    own = dict(fragment)
    pod = {"containers": [{"name": "c", "image": "i", **own.pop("container", {})}], **own}
    created = create(jobset("js", rj("w", 1, 2, 2, pod=pod)))
    assert not created.refused
    assert not created.unknown
    return sorted(f"{_SHORT[cause.reason]} {cause.field.removeprefix(_POD)}" for cause in created.jobs)


def _env(**source: Any) -> Object:
    return {"container": {"env": [{"name": "A", "valueFrom": source}]}}


def _env_from(**source: Any) -> Object:
    return {"container": {"envFrom": [source]}}


_KEY: Final = {"name": "s", "key": "k"}
_FROM: Final = "containers[0].env[0].valueFrom"
_PATH: Final = f"{_FROM}.fieldRef.fieldPath"
_DIVISOR: Final = f"{_FROM}.resourceFieldRef.divisor"
_RESOURCE: Final = f"{_FROM}.resourceFieldRef.resource"


@each(
    ("refused", "field", "accepted"),
    [
        (_env(secretKeyRef={**_KEY, "name": None}), f"invalid {_FROM}.secretKeyRef.name", _env(secretKeyRef=_KEY)),
        (_env(secretKeyRef={**_KEY, "key": ""}), f"required {_FROM}.secretKeyRef.key", _env(secretKeyRef=_KEY)),
        (
            _env(secretKeyRef={**_KEY, "key": "a/b"}),
            f"invalid {_FROM}.secretKeyRef.key",
            _env(secretKeyRef={**_KEY, "key": "a_B.c-"}),
        ),
        (
            _env(configMapKeyRef={**_KEY, "key": "..a"}),
            f"invalid {_FROM}.configMapKeyRef.key",
            _env(configMapKeyRef={**_KEY, "key": ".a"}),
        ),
        (
            _env(configMapKeyRef={**_KEY, "name": "C", "optional": True}),
            f"invalid {_FROM}.configMapKeyRef.name",
            _env(configMapKeyRef={**_KEY, "name": "c.d", "optional": True}),
        ),
        (
            _env_from(secretRef={"name": ""}),
            "required containers[0].envFrom[0].secretRef.name",
            _env_from(secretRef={"name": "s"}),
        ),
        (
            _env_from(configMapRef={"name": "a_b"}),
            "invalid containers[0].envFrom[0].configMapRef.name",
            # What may be the beginning of a name is accepted here.
            _env_from(configMapRef={"name": "a-b-"}),
        ),
        (_env(fieldRef={"fieldPath": ""}), f"required {_PATH}", _env(fieldRef={"fieldPath": "spec.nodeName"})),
        (
            _env(fieldRef={"fieldPath": "status.nodeName"}),
            f"invalid {_PATH}",
            # An old name of spec.nodeName.
            _env(fieldRef={"fieldPath": "spec.host"}),
        ),
        (
            _env(fieldRef={"fieldPath": "metadata.labels"}),
            f"unsupported {_PATH}",
            _env(fieldRef={"fieldPath": "metadata.labels['a.b/c']"}),
        ),
        (
            _env(fieldRef={"fieldPath": "status.phase"}),
            f"unsupported {_PATH}",
            _env(fieldRef={"fieldPath": "status.podIPs", "apiVersion": "v1"}),
        ),
        (
            _env(fieldRef={"fieldPath": "metadata.name['a']"}),
            f"invalid {_PATH}",
            _env(fieldRef={"fieldPath": "metadata.name"}),
        ),
        (
            _env(fieldRef={"fieldPath": "metadata.labels['a b']"}),
            f"invalid {_FROM}.fieldRef",
            # The case of an annotation's key does not matter.
            _env(fieldRef={"fieldPath": "metadata.annotations['B.C/d']"}),
        ),
        (
            _env(fieldRef={"fieldPath": "metadata.name", "apiVersion": "v2"}),
            f"invalid {_PATH}",
            _env(fieldRef={"fieldPath": "metadata.name", "apiVersion": "v1"}),
        ),
        (
            _env(resourceFieldRef={"resource": "limits.nvidia.com/gpu"}),
            f"unsupported {_RESOURCE}",
            _env(resourceFieldRef={"resource": "limits.cpu"}),
        ),
        (
            _env(resourceFieldRef={"resource": ""}),
            f"required {_RESOURCE}",
            _env(resourceFieldRef={"resource": "requests.hugepages-2Mi", "divisor": "1Mi"}),
        ),
        (
            _env(resourceFieldRef={"resource": "limits.cpu", "divisor": "100m"}),
            f"invalid {_DIVISOR}",
            _env(resourceFieldRef={"resource": "limits.cpu", "divisor": "1m"}),
        ),
        (
            _env(resourceFieldRef={"resource": "limits.memory", "divisor": "1m"}),
            f"invalid {_DIVISOR}",
            _env(resourceFieldRef={"resource": "limits.memory", "divisor": "1024Ki"}),
        ),
    ],
)
def test_a_variable_has_a_source_that_can_be(refused: Object, field: str, accepted: Object) -> None:
    assert _refusals(refused) == [field]
    assert _refusals(accepted) == []


def test_a_secret_for_images_without_a_name_is_accepted() -> None:
    assert _refusals({"imagePullSecrets": [{"name": None}]}) == []
