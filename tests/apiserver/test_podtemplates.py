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


def _volume(**source: Any) -> Object:
    return {"volumes": [{"name": "v", **source}]}


def _part(**source: Any) -> Object:
    return _volume(projected={"sources": [source]})


def _mount(privileged: bool | None = None, **fields: Any) -> Object:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/v", **fields}]}
    context = {} if privileged is None else {"securityContext": {"privileged": privileged}}
    return {**_volume(emptyDir={}), "container": {**container, **context}}


def _device(path: str = "/dev/x", **source: Any) -> Object:
    return {**_volume(**source), "container": {"volumeDevices": [{"name": "v", "devicePath": path}]}}


_CLAIM: Final = {"persistentVolumeClaim": {"claimName": "c"}}
_NAME: Final = {"fieldRef": {"fieldPath": "metadata.name"}}
_LIMIT: Final = {"resource": "limits.cpu"}


@each(
    ("refused", "field", "accepted"),
    [
        (_volume(configMap={"name": None}), "required volumes[0].configMap.name", _volume(configMap={"name": "c"})),
        (_volume(secret={"items": []}), "required volumes[0].secret.secretName", _volume(secret={"secretName": "s"})),
        (
            _volume(secret={"secretName": "s", "defaultMode": 600}),
            "invalid volumes[0].secret.defaultMode",
            _volume(secret={"secretName": "s", "defaultMode": 0o777}),
        ),
        (
            _volume(configMap={"name": "c", "items": [{"key": "k", "path": "../a"}]}),
            "invalid volumes[0].configMap.items[0].path",
            _volume(configMap={"name": "c", "items": [{"key": "k", "path": "a/..b"}]}),
        ),
        (
            _volume(configMap={"name": "c", "items": [{"key": "", "path": "a"}]}),
            "required volumes[0].configMap.items[0].key",
            _volume(configMap={"name": "c", "items": [{"key": "k", "path": "a", "mode": 0}]}),
        ),
        (
            _volume(persistentVolumeClaim={"claimName": ""}),
            "required volumes[0].persistentVolumeClaim.claimName",
            _volume(**_CLAIM),
        ),
        (
            _volume(hostPath={"path": "/a/../b"}),
            "invalid volumes[0].hostPath.path",
            # A path may be relative here, and begin with two dots.
            _volume(hostPath={"path": "..a/b.."}),
        ),
        (
            _volume(hostPath={"path": "/d", "type": "directory"}),
            "unsupported volumes[0].hostPath.type",
            _volume(hostPath={"path": "/d", "type": "DirectoryOrCreate"}),
        ),
        (_volume(hostPath={"path": ""}), "required volumes[0].hostPath.path", _volume(hostPath={"path": "/"})),
        (
            _volume(nfs={"server": "s", "path": "a"}),
            "invalid volumes[0].nfs.path",
            _volume(nfs={"server": "s", "path": "/a/.."}),
        ),
        (
            _volume(emptyDir={"sizeLimit": "-1Gi"}),
            "forbidden volumes[0].emptyDir.sizeLimit",
            _volume(emptyDir={"sizeLimit": "0", "medium": "Memory"}),
        ),
        (
            _part(serviceAccountToken={"path": "t", "expirationSeconds": 300}),
            "invalid volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds",
            _part(serviceAccountToken={"path": "t", "expirationSeconds": 600}),
        ),
        (
            _part(serviceAccountToken={"path": "/t"}),
            "invalid volumes[0].projected.path",
            _part(serviceAccountToken={"path": "a/t"}),
        ),
        (
            _part(secret={"name": ""}),
            "required volumes[0].projected.sources[0].secret.name",
            _part(secret={"name": "s", "items": [{"key": "k", "path": "p"}]}),
        ),
        (
            _part(secret={"name": "s"}, configMap={"name": "c"}),
            "forbidden volumes[0].projected.sources[0]",
            _volume(projected={"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}]}),
        ),
        (
            _part(downwardAPI={"items": [{"path": "p", "fieldRef": {"fieldPath": "status.podIP"}}]}),
            "unsupported volumes[0].projected.sources[0].downwardAPI.fieldRef.fieldPath",
            _part(downwardAPI={"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.labels"}}]}),
        ),
        (
            _volume(downwardAPI={"items": [{"path": "p", "resourceFieldRef": _LIMIT}]}),
            "required volumes[0].downwardAPI.resourceFieldRef.containerName",
            _volume(downwardAPI={"items": [{"path": "p", "resourceFieldRef": {**_LIMIT, "containerName": "c"}}]}),
        ),
        (
            _volume(downwardAPI={"items": [{"path": "p"}]}),
            "required volumes[0].downwardAPI",
            _volume(downwardAPI={"items": [{"path": "p", **_NAME}], "defaultMode": 0o400}),
        ),
        (_mount(subPath="/a"), "invalid containers[0].volumeMounts.subPath", _mount(subPath="a")),
        (_mount(subPathExpr="a/.."), "invalid containers[0].volumeMounts.subPathExpr", _mount(subPathExpr="$(A)/..a")),
        (
            _mount(mountPropagation="Bidirectional"),
            "forbidden containers[0].volumeMounts.mountPropagation",
            _mount(mountPropagation="Bidirectional", privileged=True),
        ),
        (
            _mount(mountPropagation="hostToContainer", privileged=True),
            "unsupported containers[0].volumeMounts.mountPropagation",
            _mount(mountPropagation="HostToContainer", privileged=False),
        ),
        (_device(emptyDir={}), "invalid containers[0].volumeDevices[0].name", _device(**_CLAIM)),
        (_device(), "invalid containers[0].volumeDevices[0].name", _device("relative", **_CLAIM)),
        (
            _device("/dev/..", **_CLAIM),
            "invalid containers[0].volumeDevices[0].devicePath",
            _device("/dev/..x", **_CLAIM),
        ),
    ],
)
def test_a_volume_and_its_mounts_can_be(refused: Object, field: str, accepted: Object) -> None:
    assert _refusals(refused) == [field]
    assert _refusals(accepted) == []


def test_what_is_mounted_and_a_block_device_is_refused_in_both_places() -> None:
    container = {
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "volumeDevices": [{"name": "v", "devicePath": "/v"}, {"name": "w", "devicePath": "/w"}],
    }
    assert _refusals({**_volume(**_CLAIM), "container": container}) == [
        "invalid containers[0].volumeDevices[0].devicePath",
        "invalid containers[0].volumeDevices[0].name",
        "invalid containers[0].volumeMounts[0].mountPath",
        "invalid containers[0].volumeMounts[0].name",
        "not found containers[0].volumeDevices[1].name",
    ]
