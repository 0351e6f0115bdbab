"""What an API server refuses of security contexts, of containers and of pods, and for an operating system.

``ValidateSecurityContext``, ``validatePodSpecSecurityContext``, ``validateLinux`` and ``validateWindows`` of
``pkg/apis/core/validation``. Left out are the options for Windows. Whether containers may be privileged depends on a
flag of the API server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gangctl.api.objects import INT32_MAX
from gangctl.apiserver.metadata import Causes, Object
from gangctl.apiserver.paths import validate_relative

_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_POLICIES: Final = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}
_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = re.compile(rf"({_SEGMENT}[\./])*{_SEGMENT}")
_SYSCTL_LENGTH: Final = 253
_OF_NETWORK: Final = re.compile(r"net\..*")
_OF_IPC: Final = re.compile(r"fs\.mqueue\..*|kernel\.(sem|shm(all|max|mni|_rmid_forced)?|msg(max|mnb|mni)?)")
_PROC_MOUNTS: Final = ("Default", "Unmasked")
_SYSTEMS: Final = ("linux", "windows")
_NOT_OF_WINDOWS: Final = {
    **dict.fromkeys(("hostUsers", "shareProcessNamespace"), (None,)),
    **dict.fromkeys(("hostPID", "hostIPC"), (None, False)),
}
"""Fields of a pod, and the values with which they are not set."""
_NOT_OF_WINDOWS_PODS: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls"),
    *("runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
)
_NOT_OF_WINDOWS_CONTAINERS: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)


def validate_context(container: Object, path: str, causes: Causes, *, host_users: bool) -> None:
    """Check the security context of a container; ``host_users``: its pod has the users of the node."""
    context, path = container.get("securityContext") or {}, f"{path}.securityContext"
    _users(context, path, causes)
    mount, place = context.get("procMount"), f"{path}.procMount"
    if mount is not None and mount not in _PROC_MOUNTS:
        causes.unsupported(place, mount, _PROC_MOUNTS)
    if mount == "Unmasked" and host_users:
        causes.invalid(place, mount, "`hostUsers` must be false to use `Unmasked`")
    if context.get("allowPrivilegeEscalation") is False:
        refused = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            causes.invalid(path, context, f"{refused} `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            causes.invalid(path, context, f"{refused} `capabilities.Add` CAP_SYS_ADMIN")


def validate_pod_context(spec: Object, path: str, causes: Causes) -> None:
    """Check the security context of a pod."""
    context, place = spec.get("securityContext") or {}, f"{path}.securityContext"
    _users(context, place, causes)
    _user(context.get("fsGroup", 0), f"{place}.fsGroup", causes)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        _user(group, f"{place}.supplementalGroups[{index}]", causes)
    _sysctls(spec, context.get("sysctls") or (), f"{place}.sysctls", causes)
    for field, supported in _POLICIES.items():
        if (policy := context.get(field)) is not None and policy not in supported:
            causes.unsupported(f"{place}.{field}", policy, supported)
    if spec.get("hostUsers") is False:
        for field in ("hostPID", "hostIPC"):
            if spec.get(field):
                # With an upper case letter, as ``validateHostUsers`` reports it.
                causes.forbidden(f"{path}.{field[0].upper()}{field[1:]}", "when `hostUsers` is false")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        causes.invalid(f"{path}.shareProcessNamespace", True, detail)


def validate_os(spec: Object, path: str, causes: Causes) -> None:
    """Check what the operating system of a pod does not have."""
    if "os" not in spec:
        return
    name = spec["os"].get("name", "")
    if not name:
        causes.required(f"{path}.os.name")
    elif name not in _SYSTEMS:
        causes.unsupported(f"{path}.os", name, _SYSTEMS)
    else:
        _os(name, spec, path, causes)


def _os(name: str, spec: Object, path: str, causes: Causes) -> None:
    detail = "windows options cannot be set for a linux pod" if name == "linux" else "cannot be set for a windows pod"
    for field, unset in _NOT_OF_WINDOWS.items() if name == "windows" else ():
        if spec.get(field) not in unset:
            causes.forbidden(f"{path}.{field}", detail)
    holders: list[tuple[Object, str, Sequence[str]]] = [(spec, path, _NOT_OF_WINDOWS_PODS)]
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            holders.append((container, f"{path}.{field}[{index}]", _NOT_OF_WINDOWS_CONTAINERS))
    for holder, place, fields in holders:
        context = holder.get("securityContext") or {}
        for field in fields if name == "windows" else ("windowsOptions",):
            # Empty lists are left out of a Job.
            if context.get(field) not in (None, []):
                causes.forbidden(f"{place}.securityContext.{field}", detail)


def _users(context: Object, path: str, causes: Causes) -> None:
    for field in ("runAsUser", "runAsGroup"):
        _user(context.get(field, 0), f"{path}.{field}", causes)
    for field in ("seccompProfile", "appArmorProfile"):
        if field in context:
            _profile(context[field], field.removesuffix("Profile"), f"{path}.{field}", causes)


def _user(number: int, path: str, causes: Causes) -> None:
    if not 0 <= number <= INT32_MAX:
        causes.invalid(path, number, f"must be between 0 and {INT32_MAX}, inclusive")


def _profile(profile: Object, kind: str, path: str, causes: Causes) -> None:
    name, of, place = profile.get("localhostProfile"), profile.get("type", ""), f"{path}.localhostProfile"
    if not of:
        causes.required(f"{path}.type", f"type is required when {kind}Profile is set")
    elif of not in _PROFILES:
        causes.unsupported(f"{path}.type", of, _PROFILES)
    module = "AppArmor" if kind == "appArmor" else kind
    if of != "Localhost":
        if name is not None:
            causes.invalid(place, name, f"can only be set when {module} type is Localhost")
    elif name is None or (kind == "appArmor" and not name):
        causes.required(place, f"must be set when {module} type is Localhost")
    elif kind == "seccomp":
        validate_relative(name, place, causes)
    elif name != name.strip():
        causes.invalid(place, name, "must not be padded with whitespace")


def _sysctls(spec: Object, sysctls: Sequence[Object], path: str, causes: Causes) -> None:
    names: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        place, name = f"{path}[{index}].name", sysctl.get("name", "")
        if not name:
            causes.required(place)
        elif len(name) > _SYSCTL_LENGTH or _SYSCTL.fullmatch(name) is None:
            detail = f"must have at most {_SYSCTL_LENGTH} characters and match regex ^{_SYSCTL.pattern}$"
            causes.invalid(place, name, detail)
        elif name in names:
            causes.duplicate(place, name)
        names.add(name)
        dotted = _dotted(name)
        for field, of in (("hostNetwork", _OF_NETWORK), ("hostIPC", _OF_IPC)):
            if spec.get(field) and of.fullmatch(dotted):
                causes.invalid(place, name, f"may not be specified when '{field}' is true")


def _dotted(sysctl: str) -> str:
    """With dots between its segments (``NormalizeName``)."""
    first = re.search(r"[./]", sysctl)
    return sysctl.translate(str.maketrans("./", "/.")) if first is not None and first[0] == "/" else sysctl
