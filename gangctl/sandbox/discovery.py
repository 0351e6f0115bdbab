"""Discovery: version, health, groups and resources."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from typing import Final

from gangctl.sandbox.kinds import MINORS, ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.registry import Registry

_GROUP_SUFFIX: Final = ".k8s.io"
_SUBRESOURCE_VERBS: Final = {"status": ["get", "patch", "update"], "finalize": ["update"]}
_SUBRESOURCE_KINDS: Final = {"binding": ("", "v1", "Binding"), "eviction": ("policy", "v1", "Eviction")}


def paths(registry: Registry) -> Object:
    """``/``."""
    served = {f"/apis/{kind.api_version}" for kind in registry if kind.group}
    served |= {f"/apis/{name}" for name in _names(registry)}
    return {"paths": sorted({"/api", "/api/v1", "/apis", "/healthz", "/livez", "/readyz", "/version", *served})}


def version(minor: str) -> Object:
    """``/version``."""
    major, number = minor.split(".")
    return {
        "major": major,
        "minor": number,
        "emulationMajor": major,
        "emulationMinor": number,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(number) - 1),
        "gitVersion": MINORS[minor].release,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def core_versions(address: str) -> Object:
    """``/api``."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def groups(registry: Registry) -> Object:
    """``/apis``."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(registry, name) for name in _names(registry)]}


def group(registry: Registry, name: str) -> Object | None:
    """``/apis/GROUP``; None when it is not served."""
    if name not in _names(registry):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, name)}


def resources(registry: Registry, group_name: str, version_name: str) -> Object | None:
    """``/apis/GROUP/VERSION`` and ``/api/v1``; None when it is not served."""
    kinds = _kinds(registry, group_name, version_name)
    if not kinds:
        return None
    listed: Object = {"kind": "APIResourceList"}
    if group_name:
        listed["apiVersion"] = "v1"
    listed["groupVersion"] = kinds[0].api_version
    listed["resources"] = [entry for kind in kinds for entry in _entries(kind)]
    return listed


def _names(registry: Registry) -> list[str]:
    """The groups: Kubernetes' own first, in alphabetical order each."""
    names = {kind.group for kind in registry if kind.group}
    return sorted(names, key=lambda name: (not (name.endswith(_GROUP_SUFFIX) or "." not in name), name))


def _versions(registry: Registry, name: str) -> list[str]:
    """The versions of a group, the preferred one first: stable before beta before alpha, then the highest."""
    found = {kind.version for kind in registry if kind.group == name}
    return sorted(found, key=_rank)


def _rank(name: str) -> tuple[int, str]:
    stage = 2 if "alpha" in name else 1 if "beta" in name else 0
    return stage, "".join(chr(0x10FFFF - ord(letter)) for letter in name)


def _group(registry: Registry, name: str) -> Object:
    versions = [{"groupVersion": f"{name}/{each}", "version": each} for each in _versions(registry, name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _kinds(registry: Registry, group_name: str, version_name: str) -> list[ResourceKind]:
    found = [kind for kind in registry if (kind.group, kind.version) == (group_name, version_name)]
    return sorted(found, key=lambda kind: kind.plural)


def _entries(kind: ResourceKind) -> Iterable[Object]:
    entry: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": sorted(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if "list" in kind.verbs:
        digest = hashlib.sha256(f"{kind.group}/{kind.version}/{kind.kind}".encode()).digest()
        entry["storageVersionHash"] = base64.b64encode(digest[:8]).decode()
    yield entry
    for name in sorted(kind.subresources):
        group_name, version_name, subkind = _SUBRESOURCE_KINDS.get(name, ("", "", kind.kind))
        sub: Object = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        if name == "eviction":
            sub |= {"group": group_name, "version": version_name}
        yield {**sub, "kind": subkind, "verbs": _SUBRESOURCE_VERBS.get(name, ["create"])}
