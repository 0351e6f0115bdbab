"""Random specs of Jobs and JobSets by seed: one that an API server accepts, or nearly so, with a change or two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from gangctl.api.objects import copy
from tests.apiserver.containers import PROBES, SOURCES
from tests.apiserver.podrows import pod_of
from tests.apiserver.pods import AFFINITIES, CONTEXTS, PODS
from tests.apiserver.volumes import VOLUMES
from tests.controlplane.api import Object

_CLAIM: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_TOKEN: Final = {"serviceAccountToken": {"path": "t", "expirationSeconds": 600}}
_FILES: Final = {"configMap": {"name": "c", "items": [{"key": "k", "path": "p", "mode": 420}]}}
_LABELS: Final = {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}
_PODS: Final[tuple[Object, ...]] = (
    *(
        pod_of(fragment)
        for table in (SOURCES, PROBES, VOLUMES, AFFINITIES, CONTEXTS, PODS)
        for refused, _, accepted in table
        for fragment in (refused, accepted)
    ),
    pod_of({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]}),
    pod_of({"container": {"ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}]}, "hostNetwork": True}),
    pod_of({"container": {"lifecycle": {"preStop": {"exec": {"command": ["a"]}}}}, "terminationGracePeriodSeconds": 9}),
    pod_of(
        {
            "container": {
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}
            }
        }
    ),
    pod_of(
        {
            "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}],
            "container": {"resources": {"claims": [{"name": "g", "request": "r"}]}},
        }
    ),
    pod_of(
        {
            "volumes": [
                {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}}},
                {"name": "p", "projected": {"sources": [_TOKEN, _FILES, _LABELS]}},
            ],
            "container": {
                "volumeMounts": [
                    {"name": "v", "mountPath": "/v", "subPath": "a"},
                    {"name": "e", "mountPath": "/e", "readOnly": True},
                    {"name": "p", "mountPath": "/p"},
                ]
            },
        }
    ),
    pod_of(
        {
            "nodeSelector": {"a.b/c": "d"},
            "priorityClassName": "p",
            "runtimeClassName": "r",
            "schedulerName": "s",
            "serviceAccountName": "a",
            "schedulingGates": [{"name": "a.b/c"}],
            "activeDeadlineSeconds": 9,
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.b"]}],
            "dnsConfig": {"nameservers": ["10.0.0.1"], "options": [{"name": "ndots", "value": "2"}]},
        }
    ),
    pod_of(
        {
            "container": {
                "env": [
                    {"name": "A", "value": "b"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                ],
                "command": ["a"],
                "imagePullPolicy": "Always",
                "terminationMessagePolicy": "File",
                "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}, "readOnlyRootFilesystem": True},
            }
        }
    ),
)
_EXIT: Final = {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [3, 42]}}
_LOST: Final = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
_JOBS: Final[tuple[Object, ...]] = (
    {},
    {"backoffLimit": 3, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 9, "podReplacementPolicy": "Failed"},
    {"backoffLimitPerIndex": 1, "maxFailedIndexes": 1},
    {"podFailurePolicy": {"rules": [_EXIT, _LOST]}},
    {"successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]}},
    {"completionMode": "NonIndexed", "managedBy": "a.b/c"},
)
_VALUES: Final[tuple[Any, ...]] = (
    *(0, -1, 1, 2, 3, 65_536, 2**31, None, True, False, [], {}),
    *(
        "",
        "a",
        "A",
        "A b",
        "a.b/c",
        "a_b",
        "x" * 64,
        "x" * 254,
        "/a/../b",
        "..",
        "-1",
        "0",
        "1.5",
        "100m",
        "1Gi",
        "$(A)",
    ),
    *(
        "Always",
        "Never",
        "OnFailure",
        "In",
        "Exists",
        "NotIn",
        "Gt",
        "Lt",
        "NoExecute",
        "Equal",
        "TCP",
        "Memory",
        "None",
    ),
    *(
        "Default",
        "Localhost",
        "RuntimeDefault",
        "Directory",
        "ScheduleAnyway",
        "Honor",
        "NonIndexed",
        "FailIndex",
        "Count",
    ),
    *("10.0.0.1", "nvidia.com/gpu", "hugepages-2Mi", "cpu", "spec.nodeName", "linux", "windows", "0-3", "3,1", "True"),
)


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*above, key)
        yield from _places(item, (*above, key))


def _changed(chance: Random, holder: Any, key: Any) -> None:
    """Change one entry of a list or an object."""
    value = holder[key]
    match chance.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.append(copy(value))
        case 2 if isinstance(value, str):
            near = (f"{value}!", value.upper(), f"{value} ", value[:-1], f"-{value}", f"{value}.", value * 40)
            holder[key] = chance.choice(near)
        case 3 if isinstance(value, int):
            holder[key] = chance.choice((-value, value + 1, value * 10**6, -value - 1))
        case _:
            holder[key] = copy(chance.choice(_VALUES))


def job_spec(seed: int) -> Object:
    """The spec of a Job."""
    chance = Random(f"{seed}-job")
    pod = {"restartPolicy": "Never", **copy(chance.choice(_PODS))}
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", **copy(chance.choice(_JOBS))}
    spec["template"] = {"spec": pod}
    _change(chance, spec, lambda place: place != ("template",))
    return spec


def _entry(name: str, **fields: Any) -> Object:
    job = {"parallelism": 2, "completions": 2, "template": {"spec": pod_of({})}}
    return {"name": name, "replicas": 2, "template": {"spec": job}, **fields}


_RULE: Final = {"name": "r", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
_PATTERN: Final = {"action": "RestartJobSet", "onJobFailureMessagePatterns": [".*a"], "targetReplicatedJobs": ["a"]}
_MOUNT: Final = {"container": {"volumeMounts": [{"name": "data", "mountPath": "/d"}]}}
_JOBSETS: Final[tuple[Object, ...]] = (
    {"replicatedJobs": [_entry("a"), _entry("b", dependsOn=[{"name": "a", "status": "Ready"}])]},
    {"replicatedJobs": [_entry("a"), _entry("b")], "startupPolicy": {"startupPolicyOrder": "InOrder"}},
    {
        "replicatedJobs": [_entry("a"), _entry("b")],
        "successPolicy": {"operator": "Any", "targetReplicatedJobs": ["a"]},
        "failurePolicy": {"maxRestarts": 3, "restartStrategy": "Recreate", "rules": [_RULE, _PATTERN]},
    },
    {
        "replicatedJobs": [_entry("a", groupName="g"), _entry("b")],
        "network": {"enableDNSHostnames": True, "subdomain": "sub", "publishNotReadyAddresses": True},
        "coordinator": {"replicatedJob": "a", "jobIndex": 1, "podIndex": 1},
        "managedBy": "a.b/c",
        "suspend": True,
        "ttlSecondsAfterFinished": 9,
    },
    {
        "replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": pod_of(_MOUNT)}}}}],
        "volumeClaimPolicies": [
            {
                "templates": [{"metadata": {"name": "data"}, "spec": _CLAIM}],
                "retentionPolicy": {"whenDeleted": "Retain"},
            }
        ],
    },
)
_OF_JOBSETS: Final = 6
"""Steps to the deepest field that is changed here: what is below is that of Jobs."""


def jobset_spec(seed: int) -> Object:
    """The spec of a JobSet."""
    chance = Random(f"{seed}-jobset")
    spec = copy(chance.choice(_JOBSETS))
    _change(chance, spec, lambda place: len(place) <= _OF_JOBSETS)
    return spec


def _change(chance: Random, spec: Object, may_change: Callable[[tuple[Any, ...]], bool]) -> None:
    for _ in range(chance.choice((1, 1, 1, 2))):
        places = list(filter(may_change, _places(spec)))
        if not places:
            return
        *above, last = chance.choice(places)
        holder: Any = spec
        for key in above:
            holder = holder[key]
        _changed(chance, holder, last)
