"""What the API server refuses of containers, each beside the nearest that it accepts (validation.go of 1.37.2)."""

from __future__ import annotations

from typing import Any, Final

from tests.apiserver.podrows import Row, container
from tests.controlplane.api import Object


def _env(**source: Any) -> Object:
    return {"container": {"env": [{"name": "A", "valueFrom": source}]}}


def _env_from(**source: Any) -> Object:
    return {"container": {"envFrom": [source]}}


def _file(**fields: Any) -> Object:
    reference = {"volumeName": "v", "path": "a", "key": "k", **fields}
    return {**_env(fileKeyRef=reference), "volumes": [{"name": "v", "emptyDir": {}}]}


_KEY: Final = {"name": "s", "key": "k"}
_FROM: Final = "containers[0].env[0].valueFrom"
_PATH: Final = f"{_FROM}.fieldRef.fieldPath"
_DIVISOR: Final = f"{_FROM}.resourceFieldRef.divisor"
_RESOURCE: Final = f"{_FROM}.resourceFieldRef.resource"


SOURCES: Final[tuple[Row, ...]] = (
    (
        _env_from(secretRef={"name": "", "optional": True}),
        "required containers[0].envFrom[0].secretRef.name",
        {"imagePullSecrets": [{"name": None}]},
    ),
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
        _env(fieldRef={"fieldPath": "['metadata.name']"}),
        f"invalid {_PATH}",
        _env(fieldRef={"fieldPath": "metadata.uid"}),
    ),
    (
        _env(fieldRef={"fieldPath": "metadata.labels['a['b']"}),
        f"invalid {_FROM}.fieldRef",
        _env(fieldRef={"fieldPath": "metadata.labels['a']"}),
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
    (
        _file(volumeName="w"),
        f"not found {_FROM}.fileKeyRef.volumeName",
        _file(optional=True),
    ),
    (_file(path="../a", key="a=b"), [f"invalid {_FROM}.fileKeyRef.key", f"invalid {_FROM}.fileKeyRef.path"], _file()),
    (
        {**_file(), "volumes": [{"name": "v", "configMap": {"name": "c"}}]},
        f"invalid {_FROM}.fileKeyRef.volumeName",
        {**_file(), "volumes": [{"name": "v"}]},
    ),
    (_file(key=""), f"required {_FROM}.fileKeyRef.key", _file(path="a/b")),
)


def _restarted(**fields: Any) -> Object:
    return container(restartPolicy="Never", restartPolicyRules=[{"action": "Restart", **fields}])


def _claiming(claim: Object) -> Object:
    pod = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}
    return {**pod, **container(resources={"claims": [claim]})}


_RESIZE: Final = {"resourceName": "cpu", "restartPolicy": "NotRequired"}
_LIST: Final = {"exec": {"command": ["ls"]}}
_HTTP: Final = {"httpGet": {"port": 80}}


PROBES: Final[tuple[Row, ...]] = (
    (
        container(livenessProbe={"initialDelaySeconds": 10}),
        "required containers[0].livenessProbe",
        container(livenessProbe={**_LIST, "initialDelaySeconds": 10}),
    ),
    (
        container(livenessProbe={**_LIST, "successThreshold": 2}),
        "invalid containers[0].livenessProbe.successThreshold",
        container(readinessProbe={**_LIST, "successThreshold": 2}),
    ),
    (
        container(readinessProbe={**_LIST, "terminationGracePeriodSeconds": 1}),
        "invalid containers[0].readinessProbe.terminationGracePeriodSeconds",
        container(startupProbe={**_LIST, "terminationGracePeriodSeconds": 1, "successThreshold": 0}),
    ),
    (
        container(startupProbe={**_LIST, "periodSeconds": -1}),
        "invalid containers[0].startupProbe.periodSeconds",
        container(startupProbe={**_LIST, "periodSeconds": 0}),
    ),
    (
        container(startupProbe={**_LIST, **_HTTP}),
        "forbidden containers[0].startupProbe.httpGet",
        container(startupProbe=_HTTP),
    ),
    (
        container(readinessProbe={"tcpSocket": {"port": "8080"}}),
        "invalid containers[0].readinessProbe.tcpSocket.port",
        container(readinessProbe={"tcpSocket": {"port": "http"}}),
    ),
    (
        container(readinessProbe={"grpc": {"port": 65_536}}),
        "invalid containers[0].readinessProbe.grpc.port",
        container(readinessProbe={"grpc": {"port": 65_535, "service": ""}}),
    ),
    (
        container(readinessProbe={"httpGet": {"port": 80, "scheme": "https"}}),
        "unsupported containers[0].readinessProbe.httpGet.scheme",
        container(readinessProbe={"httpGet": {"port": 80, "scheme": "HTTPS", "path": ""}}),
    ),
    (
        container(lifecycle={"preStop": {}}),
        "required containers[0].lifecycle.preStop",
        container(lifecycle={"preStop": _LIST}),
    ),
    (
        container(lifecycle={"postStart": {"exec": {}}}),
        "required containers[0].lifecycle.postStart.exec.command",
        container(lifecycle={"postStart": {"tcpSocket": {"port": 1}}}),
    ),
    (
        {**container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}), "terminationGracePeriodSeconds": None},
        "invalid containers[0].lifecycle.preStop.sleep",
        {**container(lifecycle={"preStop": {"sleep": {"seconds": 60}}}), "terminationGracePeriodSeconds": 60},
    ),
    (
        {"initContainers": [{"name": "d", "image": "i", "restartPolicy": "Always", "startupProbe": {}}]},
        "required initContainers[0].startupProbe",
        {"initContainers": [{"name": "d", "image": "i", "restartPolicy": "Always", "startupProbe": _LIST}]},
    ),
    (
        container(restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]),
        "required containers[0].restartPolicy",
        container(
            restartPolicy="Never",
            restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
        ),
    ),
    (
        container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
        "invalid containers[0].resizePolicy",
        {
            "restartPolicy": "OnFailure",
            **container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
        },
    ),
    (
        _restarted(exitCodes={"operator": "in", "values": [42]}),
        "unsupported containers[0].restartPolicyRules[0].exitCodes.operator",
        _restarted(exitCodes={"operator": "NotIn", "values": [0]}),
    ),
    (
        _restarted(),
        "required containers[0].restartPolicyRules[0].exitCodes",
        _restarted(exitCodes={"operator": "In"}),
    ),
    (
        _restarted(action="restart", exitCodes={"operator": "In"}),
        "unsupported containers[0].restartPolicyRules[0].action",
        _restarted(exitCodes={"operator": "In", "values": [*range(255)]}),
    ),
    (
        container(resizePolicy=[_RESIZE, _RESIZE]),
        "duplicate containers[0].resizePolicy[1]",
        container(resizePolicy=[_RESIZE, {**_RESIZE, "resourceName": "memory"}]),
    ),
    (
        container(resizePolicy=[{**_RESIZE, "resourceName": "nvidia.com/gpu"}]),
        "unsupported containers[0].resizePolicy",
        container(resizePolicy=[_RESIZE]),
    ),
    (
        container(readinessProbe={"httpGet": {"port": 80, "httpHeaders": [{"name": "X_A", "value": "b"}]}}),
        "invalid containers[0].readinessProbe.httpGet.httpHeaders",
        container(readinessProbe={"httpGet": {"port": 80, "httpHeaders": [{"name": "X-A"}]}}),
    ),
    (
        _claiming({"name": "g", "request": "R"}),
        "invalid containers[0].resources.claims[0].request",
        _claiming({"name": "g", "request": "r"}),
    ),
)
