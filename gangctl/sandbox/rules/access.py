"""RBAC objects. They are kept, not obeyed: in a sandbox everybody may do everything."""

from __future__ import annotations

from typing import Final

from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.metadata import validate_metadata, validate_metadata_update

_GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


def default(kind: ResourceKind, obj: Object) -> None:
    """API groups of references, and the null of a role without rules."""
    if "roles" in kind.plural:
        obj.setdefault("rules", None)
        return
    obj.setdefault("roleRef", {}).setdefault("apiGroup", _GROUP)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"}:
            subject.setdefault("apiGroup", _GROUP)


def validate(kind: ResourceKind, new: Object, old: Object | None) -> Causes:
    """What is wrong with a role or a binding."""
    if old is not None:
        causes = validate_metadata_update(new, old)
    else:
        causes = validate_metadata(new, names.path_segment, namespaced=kind.namespaced)
    if "roles" in kind.plural:
        for index, rule in enumerate(new.get("rules") or ()):
            _rule(rule, f"rules[{index}]", causes, namespaced=kind.namespaced)
        return causes
    _binding(kind, new, causes)
    if old is not None and new["roleRef"] != old["roleRef"]:
        causes.invalid("roleRef", new["roleRef"], "cannot change roleRef")
    return causes


def _rule(rule: Object, path: str, causes: Causes, *, namespaced: bool) -> None:
    if rule.get("nonResourceURLs"):
        if namespaced:
            told = "namespaced rules cannot apply to non-resource URLs"
            causes.invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], told)
    else:
        if not rule.get("apiGroups"):
            causes.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            causes.required(f"{path}.resources", "resource rules must supply at least one resource")
    if not rule.get("verbs"):
        causes.required(f"{path}.verbs")


def _binding(kind: ResourceKind, binding: Object, causes: Causes) -> None:
    role = binding["roleRef"]
    if role["apiGroup"] != _GROUP:
        causes.unsupported("roleRef.apiGroup", role["apiGroup"], (_GROUP,))
    kinds = ("Role", "ClusterRole") if kind.namespaced else ("ClusterRole",)
    if role.get("kind") not in kinds:
        causes.unsupported("roleRef.kind", role.get("kind", ""), kinds)
    if not role.get("name"):
        causes.required("roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        path = f"subjects[{index}]"
        if not subject.get("name"):
            causes.required(f"{path}.name")
        if subject.get("kind") not in _SUBJECTS:
            causes.unsupported(f"{path}.kind", subject.get("kind", ""), _SUBJECTS)
        if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
            causes.required(f"{path}.namespace")
