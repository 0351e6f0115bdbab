"""What the API server refuses of pod templates, each beside the nearest that it accepts (validation.go of 1.37.2)."""

from __future__ import annotations

from typing import Any, Final

from tests.apiserver.podrows import Row, container
from tests.controlplane.api import Object


def _node(operator: str, *values: str, key: str = "a/b") -> Object:
    requirement = {"key": key, "operator": operator, "values": list(values)}
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}}}


def _name_of_node(operator: str, *values: str, key: str = "metadata.name") -> Object:
    requirement = {"key": key, "operator": operator, "values": list(values)}
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchFields": [requirement]}]}}}}


def _preferred(weight: int, *values: str) -> Object:
    preference = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": list(values)}]}
    return {"affinity": {"nodeAffinity": {_PREFERRED: [{"weight": weight, "preference": preference}]}}}


def _pods(kind: str = "podAffinity", weight: int | None = None, **term: Any) -> Object:
    whole = {"topologyKey": "zone", **term}
    if weight is None:
        return {"affinity": {kind: {_REQUIRED: [whole]}}}
    return {"affinity": {kind: {_PREFERRED: [{"weight": weight, "podAffinityTerm": whole}]}}}


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_TERM: Final = f"affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0]"
_EQUALS: Final = {"matchExpressions": [{"key": "a", "operator": "Equals", "values": ["b"]}]}


AFFINITIES: Final[tuple[Row, ...]] = (
    (_node("In"), [f"required {_TERM}.matchExpressions[0].values"], _node("In", "c")),
    (_node("Exists", "c"), [f"forbidden {_TERM}.matchExpressions[0].values"], _node("Exists")),
    (_node("Gt", "1", "2"), [f"required {_TERM}.matchExpressions[0].values"], _node("Gt", "1")),
    (_node("Equals", "c"), [f"invalid {_TERM}.matchExpressions[0].operator"], _node("NotIn", "c")),
    (_node("In", "c d"), [f"invalid {_TERM}.matchExpressions[0].values[0]"], _preferred(1, "c d")),
    (_node("In", "c", key="a b"), [f"invalid {_TERM}.matchExpressions[0].key"], _node("In", "", key="a.b/c")),
    (_name_of_node("In", "a", "b"), [f"required {_TERM}.matchFields[0].values"], _name_of_node("NotIn", "a")),
    (_name_of_node("Exists"), [f"invalid {_TERM}.matchFields[0].operator"], _name_of_node("In", "a.b")),
    (
        _name_of_node("In", "a", key="metadata.namespace"),
        [f"invalid {_TERM}.matchFields[0].key"],
        _name_of_node("In", "a"),
    ),
    (
        {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": []}}}},
        [f"required affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"],
        {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{}]}}}},
    ),
    (_preferred(0, "c"), [f"invalid affinity.nodeAffinity.{_PREFERRED}[0].weight"], _preferred(1, "c")),
    (
        _pods("podAntiAffinity", 101),
        [f"invalid affinity.podAntiAffinity.{_PREFERRED}[0].weight"],
        _pods("podAntiAffinity", 100),
    ),
    (
        _pods("podAntiAffinity", topologyKey=""),
        [
            f"invalid affinity.podAntiAffinity.{_REQUIRED}[0].topologyKey",
            f"required affinity.podAntiAffinity.{_REQUIRED}[0].topologyKey",
        ],
        _pods("podAntiAffinity"),
    ),
    (
        _pods(labelSelector=_EQUALS),
        [f"invalid affinity.podAffinity.{_REQUIRED}[0].labelSelector.matchExpressions[0].operator"],
        _pods(labelSelector={"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}),
    ),
    (
        _pods(namespaces=["a.b"]),
        [f"invalid affinity.podAffinity.{_REQUIRED}[0].namespace"],
        _pods(namespaces=["a"], namespaceSelector={}),
    ),
    (
        _pods(matchLabelKeys=["a"]),
        [f"forbidden affinity.podAffinity.{_REQUIRED}[0].matchLabelKeys"],
        _pods(matchLabelKeys=["a"], labelSelector={}),
    ),
    (
        _pods(labelSelector={}, mismatchLabelKeys=["a b"]),
        [f"invalid affinity.podAffinity.{_REQUIRED}[0].mismatchLabelKeys[0]"],
        _pods(labelSelector={}, mismatchLabelKeys=["a"]),
    ),
    (
        _pods("podAntiAffinity", labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["a"]),
        [f"invalid affinity.podAntiAffinity.{_REQUIRED}[0].matchLabelKeys[0]"],
        _pods("podAntiAffinity", labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["b"]),
    ),
)


def _context(**fields: Any) -> Object:
    return container(securityContext=fields)


def _pod_context(**fields: Any) -> Object:
    return {"securityContext": fields}


def _sysctl(name: str, **fields: Any) -> Object:
    return {**_pod_context(sysctls=[{"name": name, "value": "1"}]), **fields}


CONTEXTS: Final[tuple[Row, ...]] = (
    (
        _context(privileged=True, allowPrivilegeEscalation=False),
        "invalid containers[0].securityContext",
        _context(privileged=True, allowPrivilegeEscalation=True),
    ),
    (
        _context(capabilities={"add": ["CAP_SYS_ADMIN"]}, allowPrivilegeEscalation=False),
        "invalid containers[0].securityContext",
        _context(capabilities={"add": ["SYS_ADMIN"]}, allowPrivilegeEscalation=False, privileged=False),
    ),
    (_context(runAsUser=-1), "invalid containers[0].securityContext.runAsUser", _context(runAsUser=0)),
    (_pod_context(runAsUser=-1), "invalid securityContext.runAsUser", _pod_context(runAsUser=2**31 - 1)),
    (_pod_context(fsGroup=2**31), "invalid securityContext.fsGroup", _pod_context(fsGroup=0)),
    (
        _pod_context(supplementalGroups=[0, -1]),
        "invalid securityContext.supplementalGroups[1]",
        _pod_context(supplementalGroups=[0]),
    ),
    (
        _pod_context(seccompProfile={"type": "Localhost"}),
        "required securityContext.seccompProfile.localhostProfile",
        _pod_context(seccompProfile={"type": "Localhost", "localhostProfile": "a/b.json"}),
    ),
    (
        _context(seccompProfile={"type": "RuntimeDefault", "localhostProfile": "a"}),
        "invalid containers[0].securityContext.seccompProfile.localhostProfile",
        _context(seccompProfile={"type": "RuntimeDefault"}),
    ),
    (
        _context(appArmorProfile={"type": "unconfined"}),
        "unsupported containers[0].securityContext.appArmorProfile.type",
        _context(appArmorProfile={"type": "Localhost", "localhostProfile": "/a"}),
    ),
    (
        _sysctl("net.core.somaxconn", hostNetwork=True),
        "invalid securityContext.sysctls[0].name",
        _sysctl("net.core.somaxconn"),
    ),
    (
        _sysctl("kernel/shmmax", hostIPC=True),
        "invalid securityContext.sysctls[0].name",
        _sysctl("kernel.shm_next_id", hostIPC=True, hostNetwork=True),
    ),
    (_sysctl("Kernel.a"), "invalid securityContext.sysctls[0].name", _sysctl("kernel.a")),
    (
        {"hostPID": True, "shareProcessNamespace": True},
        "invalid shareProcessNamespace",
        {"hostPID": True, "shareProcessNamespace": False},
    ),
    (
        {"os": {"name": "windows"}, "hostPID": True},
        "forbidden hostPID",
        {"os": {"name": "windows"}, "hostPID": False, "hostNetwork": True, **_pod_context(sysctls=[])},
    ),
    (
        {"os": {"name": "windows"}, **_context(privileged=False)},
        "forbidden containers[0].securityContext.privileged",
        {"os": {"name": "linux"}, **_context(privileged=False)},
    ),
    (
        {"os": {"name": "linux"}, **_pod_context(windowsOptions={})},
        "forbidden securityContext.windowsOptions",
        {"os": {"name": "windows"}, **_pod_context(windowsOptions={})},
    ),
    ({"os": {"name": "Linux"}}, "unsupported os", {"os": {"name": "linux"}, "hostPID": True}),
    (
        _context(procMount="unmasked"),
        "unsupported containers[0].securityContext.procMount",
        _context(procMount="Default"),
    ),
    (
        _context(procMount="Unmasked"),
        "invalid containers[0].securityContext.procMount",
        {**_context(procMount="Unmasked"), "hostUsers": False},
    ),
    ({"hostUsers": False, "hostPID": True}, "forbidden HostPID", {"hostUsers": False}),
    ({"hostUsers": False, "hostIPC": True}, "forbidden HostIPC", {"hostUsers": True, "hostIPC": True}),
    (
        _pod_context(supplementalGroupsPolicy="strict"),
        "unsupported securityContext.supplementalGroupsPolicy",
        _pod_context(supplementalGroupsPolicy="Strict"),
    ),
    (
        _pod_context(seLinuxChangePolicy="Mount"),
        "unsupported securityContext.seLinuxChangePolicy",
        _pod_context(seLinuxChangePolicy="Recursive"),
    ),
)


def _spread(**fields: Any) -> Object:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [constraint]}


def _searches(*domains: str) -> Object:
    return {"dnsConfig": {"searches": list(domains)}}


def _amounts(of_pod: Object, of_container: Object, **fields: Any) -> Object:
    return {"resources": of_pod, **container(resources=of_container), **fields}


_DNS: Final = {"dnsConfig": {"nameservers": ["10.0.0.1"]}}
_CPU: Final = {"requests": {"cpu": "1500m"}}


PODS: Final[tuple[Row, ...]] = (
    ({"dnsPolicy": "None"}, "required dnsConfig", {"dnsPolicy": "None", **_DNS}),
    (
        {"dnsPolicy": "None", "dnsConfig": {"searches": ["a"]}},
        "required dnsConfig.nameservers",
        {"dnsPolicy": "Default", "dnsConfig": {"searches": ["a_b.c.", "."]}},
    ),
    (
        {"dnsConfig": {"nameservers": ["ns-0"]}},
        "invalid dnsConfig.nameservers[0]",
        {"dnsConfig": {"nameservers": ["10.0.0.1", "2001:db8::1"]}},
    ),
    (
        {"dnsConfig": {"nameservers": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]}},
        "invalid dnsConfig.nameservers",
        {"dnsConfig": {"nameservers": ["10.0.0.1", "10.0.0.2", "10.0.0.3"], "options": [{"name": "ndots"}]}},
    ),
    (
        {"hostAliases": [{"ip": "head-0", "hostnames": ["a"]}]},
        "invalid hostAliases[0].ip",
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.b"]}]},
    ),
    (
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a_b"]}]},
        "invalid hostAliases[0].hostnames[0]",
        {"hostAliases": [{"ip": "10.0.0.1"}]},
    ),
    ({"preemptionPolicy": "never"}, "unsupported preemptionPolicy", {"preemptionPolicy": "Never"}),
    (
        _spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway"),
        "invalid topologySpreadConstraints[0].minDomains",
        _spread(minDomains=2),
    ),
    (_spread(minDomains=0), "invalid topologySpreadConstraints[0].minDomains", _spread(minDomains=1)),
    (
        _spread(nodeTaintsPolicy="honor"),
        "unsupported topologySpreadConstraints[0].nodeTaintsPolicy",
        _spread(nodeTaintsPolicy="Honor", nodeAffinityPolicy="Ignore"),
    ),
    (
        _spread(labelSelector=_EQUALS),
        "invalid topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator",
        _spread(labelSelector={"matchLabels": {"a": "b"}}),
    ),
    (
        _amounts({"requests": {"cpu": "1"}}, _CPU),
        "invalid resources.requests[cpu]",
        _amounts({"requests": {"cpu": "1.5"}}, _CPU),
    ),
    (
        _amounts({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}),
        "invalid resources.containers[0][cpu].limits",
        # Limits of containers may be more together than that of the pod.
        _amounts(
            {"limits": {"cpu": "2"}},
            {"limits": {"cpu": "2"}},
            initContainers=[
                {"name": "d", "image": "i", "restartPolicy": "Always", "resources": {"limits": {"cpu": "2"}}}
            ],
        ),
    ),
    (
        _amounts(
            {"requests": {"cpu": "2"}},
            _CPU,
            initContainers=[{"name": "d", "image": "i", "restartPolicy": "Always", "resources": _CPU}],
        ),
        "invalid resources.requests[cpu]",
        _amounts({"requests": {"cpu": "2"}}, _CPU, initContainers=[{"name": "d", "image": "i", "resources": _CPU}]),
    ),
    (
        {"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "2"}}},
        "unsupported resources.limits[nvidia.com/gpu]",
        {"resources": {"limits": {"hugepages-2Mi": "2Mi", "cpu": "2"}}},
    ),
    (
        {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}},
        "invalid resources.requests",
        {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}},
    ),
    (
        container(resources={"limits": {"hugepages-2Mi": "3Mi", "memory": "1Gi"}}),
        "invalid containers[0].resources.limits[hugepages-2Mi]",
        container(resources={"limits": {"hugepages-2Mi": "4Mi", "hugepages-1Gi": "0", "memory": "1Gi"}}),
    ),
    (_searches("a b"), "invalid dnsConfig.searches[0]", _searches("a_b.c.", ".", "_a")),
    (_searches(*["a"] * 33), "invalid dnsConfig.searches", _searches(*["a"] * 32)),
    (_searches(*["a." * 100 + "a"] * 11), "invalid dnsConfig.searches", _searches(*["a." * 100 + "a"] * 10)),
    (
        {"readinessGates": [{"conditionType": "a b"}]},
        "invalid readinessGates[0].conditionType",
        {"readinessGates": [{"conditionType": "a.b/c"}]},
    ),
    (
        _spread(matchLabelKeys=["a"]),
        "forbidden topologySpreadConstraints[0].matchLabelKeys",
        _spread(matchLabelKeys=["a"], labelSelector={}),
    ),
    (
        {"hostnameOverride": "a", "setHostnameAsFQDN": True},
        "forbidden hostnameOverride",
        {"hostnameOverride": "a.b", "setHostnameAsFQDN": False},
    ),
    ({"hostnameOverride": "a" * 65}, "too long hostnameOverride", {"hostnameOverride": "a" * 63}),
    ({"hostnameOverride": "a_b", "hostNetwork": True}, ["forbidden hostnameOverride", "invalid hostnameOverride"], {}),
    ({"overhead": {"cpu": "-1"}}, "invalid overhead.limits[cpu]", {"overhead": {"cpu": "250m", "memory": "1Gi"}}),
)
