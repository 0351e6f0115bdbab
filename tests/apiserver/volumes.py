"""What the API server refuses of volumes and mounts, beside the nearest that it accepts (validation.go of 1.37.2)."""

from __future__ import annotations

from typing import Any, Final

from tests.apiserver.podrows import Row
from tests.controlplane.api import Object


def _volume(**source: Any) -> Object:
    return {"volumes": [{"name": "v", **source}]}


def _part(**source: Any) -> Object:
    return _volume(projected={"sources": [source]})


def _parts(*sources: Object) -> Object:
    return _volume(projected={"sources": list(sources)})


def _mount(privileged: bool | None = None, **fields: Any) -> Object:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/v", **fields}]}
    context = {} if privileged is None else {"securityContext": {"privileged": privileged}}
    return {**_volume(emptyDir={}), "container": {**container, **context}}


def _device(path: str = "/dev/x", **source: Any) -> Object:
    return {**_volume(**source), "container": {"volumeDevices": [{"name": "v", "devicePath": path}]}}


def _ephemeral(**fields: Any) -> Object:
    return _volume(ephemeral={"volumeClaimTemplate": {"spec": {**_CLAIMED, **fields}}})


_CLAIMED: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_SPEC: Final = "volumes[0].ephemeral.volumeClaimTemplate.spec"
_CLAIM: Final[dict[str, Any]] = {"persistentVolumeClaim": {"claimName": "c"}}
_NAME: Final = {"fieldRef": {"fieldPath": "metadata.name"}}
_ITEM: Final = {"name": "n", "items": [{"key": "k", "path": "p"}]}
_LIMIT: Final = {"resource": "limits.cpu"}


VOLUMES: Final[tuple[Row, ...]] = (
    (_volume(ephemeral={}), "required volumes[0].ephemeral.volumeClaimTemplate", _ephemeral()),
    (_ephemeral(accessModes=[]), f"required {_SPEC}.accessModes", _ephemeral(accessModes=["ReadWriteOncePod"])),
    (
        _ephemeral(accessModes=["RWO"]),
        f"unsupported {_SPEC}.accessModes",
        _ephemeral(accessModes=["ReadWriteMany", "ReadWriteOnce"]),
    ),
    (
        _ephemeral(resources={"requests": {"storage": "0"}}),
        f"invalid {_SPEC}.resources[storage]",
        _ephemeral(volumeMode="Block"),
    ),
    (
        _volume(ephemeral={"volumeClaimTemplate": {"metadata": {"name": "e"}, "spec": _CLAIMED}}),
        "forbidden volumes[0].ephemeral.volumeClaimTemplate.metadata.name",
        _volume(ephemeral={"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": _CLAIMED}}),
    ),
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
    (
        {
            **_volume(**_CLAIM),
            "container": {
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "volumeDevices": [{"name": "v", "devicePath": "/v"}, {"name": "w", "devicePath": "/w"}],
            },
        },
        [
            "invalid containers[0].volumeDevices[0].devicePath",
            "invalid containers[0].volumeDevices[0].name",
            "invalid containers[0].volumeMounts[0].mountPath",
            "invalid containers[0].volumeMounts[0].name",
            "not found containers[0].volumeDevices[1].name",
        ],
        _device(**_CLAIM),
    ),
    (
        _mount(recursiveReadOnly="Enabled"),
        "forbidden containers[0].volumeMounts.recursiveReadOnly",
        _mount(recursiveReadOnly="Enabled", readOnly=True),
    ),
    (
        _mount(recursiveReadOnly="IfPossible", readOnly=True, mountPropagation="HostToContainer"),
        "forbidden containers[0].volumeMounts.recursiveReadOnly",
        _mount(recursiveReadOnly="IfPossible", readOnly=True, mountPropagation="None"),
    ),
    (
        _mount(recursiveReadOnly="enabled"),
        "unsupported containers[0].volumeMounts.recursiveReadOnly",
        _mount(recursiveReadOnly="Disabled", mountPropagation="HostToContainer"),
    ),
    (
        _parts({"configMap": _ITEM}, {"secret": _ITEM}),
        "invalid volumes[0].projected",
        _parts({"configMap": _ITEM}, {"serviceAccountToken": {"path": "p"}}),
    ),
    (
        _parts({"downwardAPI": {"items": [{"path": "p", **_NAME}, {"path": "p", **_NAME}]}}),
        "invalid volumes[0].projected",
        _volume(configMap={"name": "c", "items": [{"key": "k", "path": "p"}, {"key": "l", "path": "p"}]}),
    ),
    (
        _volume(image={"reference": "r", "pullPolicy": "always"}),
        "unsupported volumes[0].image.pullPolicy",
        _volume(image={"reference": "r"}),
    ),
)
