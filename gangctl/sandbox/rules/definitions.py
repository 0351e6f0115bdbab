"""CustomResourceDefinitions of ``apiextensions.k8s.io/v1``: defaults, status and validation of the definition itself.

Left out: the estimated cost of CEL rules, conversion by webhook, selectable fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.sandbox.objects import Object, copy
from gangctl.sandbox.rules import KindRules, names
from gangctl.sandbox.rules.causes import Causes, spelled
from gangctl.sandbox.rules.metadata import validate_metadata, validate_metadata_update
from gangctl.sandbox.rules.schema_form import check_schema
from gangctl.sandbox.rules.world import World

APPROVAL: Final = "api-approved.kubernetes.io"
FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_SCOPES: Final = ("Cluster", "Namespaced")
_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_NAMES: Final = ("plural", "singular", "kind", "listKind")
_SCHEMA: Final = "schema.openAPIV3Schema"


def definition_rules(known: KindRules) -> KindRules:
    """The rules of definitions; ``known`` drops their unknown fields."""
    return KindRules(
        drop=known.drop,
        default=default,
        prepare_create=prepare_create,
        prepare_update=prepare_update,
        validate=validate,
    )


def default(definition: Object) -> None:
    """Fill in names and conversion, in place."""
    spec = definition.get("spec") or {}
    kind = (spec.get("names") or {}).get("kind", "")
    if kind:
        spec["names"].setdefault("singular", kind.lower())
        spec["names"].setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def prepare_create(definition: Object) -> None:
    """A new definition is not established."""
    status: Object = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
    definition["status"] = status
    stored = _storage_version(definition)
    if stored:
        status["storedVersions"].append(stored)


def prepare_update(new: Object, old: Object, subresource: str) -> None:
    """A version that becomes the stored one is remembered as such."""
    del old
    stored, status = _storage_version(new), new.get("status") or {}
    if not subresource and stored and stored not in status.get("storedVersions", ()):
        new["status"] = {**status, "storedVersions": [*status.get("storedVersions", ()), stored]}


def _storage_version(definition: Object) -> str:
    versions = (definition.get("spec") or {}).get("versions") or ()
    return next((str(each.get("name", "")) for each in versions if each.get("storage")), "")


def validate(new: Object, old: Object | None, subresource: str, world: World) -> Causes:
    """What is wrong with a definition."""
    del world
    if old is not None:
        causes = validate_metadata_update(new, old)
    else:
        causes = validate_metadata(new, names.dns_subdomain, namespaced=False)
    # The server's own finalizer has no prefix.
    causes = Causes(cause for cause in causes if spelled(FINALIZER) not in cause.message)
    if subresource:
        return causes
    spec = new.get("spec") or {}
    if old is None:
        _name(new["metadata"].get("name", ""), spec, causes)
    _spec(spec, causes)
    _stored_versions(new, causes)
    if old is None:
        _approval(new, causes)
    else:
        _fixed(new, old, causes)
    return causes


def _name(name: str, spec: Object, causes: Causes) -> None:
    if name and name != f"{_names(spec).get('plural', '')}.{spec.get('group', '')}":
        causes.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _names(spec: Object) -> Object:
    return spec.get("names") or {}


def _spec(spec: Object, causes: Causes) -> None:
    group = spec.get("group", "")
    if not group:
        causes.required("spec.group")
    elif names.dns_subdomain(group):
        causes.invalid("spec.group", group, ",".join(names.dns_subdomain(group)))
    elif "." not in group:
        causes.invalid("spec.group", group, "should be a domain with at least one dot")
    scope = spec.get("scope", "")
    if not scope:
        causes.required("spec.scope")
    elif scope not in _SCOPES:
        causes.unsupported("spec.scope", scope, _SCOPES)
    if spec.get("preserveUnknownFields"):
        told = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        causes.invalid("spec.preserveUnknownFields", True, told)
    _versions(spec.get("versions") or [], causes)
    for field in _NAMES:
        if not _names(spec).get(field):
            causes.required(f"spec.names.{field}")
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        told = "the sandbox converts between versions by apiVersion alone: strategy None"
        causes.forbidden("spec.conversion.strategy", told)
    _accepted_names(_names(spec), causes)


def _versions(versions: list[Any], causes: Causes) -> None:
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name", "")
        if names.dns_1035_label(name):
            causes.invalid(f"{path}.name", name, ",".join(names.dns_1035_label(name)))
        schema = schema_of(version)
        if schema is None:
            causes.required(f"{path}.{_SCHEMA}")
        elif index == 0 or schema != schema_of(versions[0]):
            # What all versions have in common belongs to none of them.
            alike = all(schema_of(other) == schema for other in versions)
            check_schema(schema, "spec.validation.openAPIV3Schema" if alike else f"{path}.{_SCHEMA}", causes)
    first = versions[0].get("name", "") if versions else ""
    if first and names.dns_1035_label(first):
        # It is checked where older clients had their only version, too.
        causes.invalid("spec.version", first, ",".join(names.dns_1035_label(first)))
    told = [_version_in_go(version) for version in versions]
    if len({version.get("name") for version in versions}) < len(versions):
        causes.invalid("spec.versions", told, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        causes.invalid("spec.versions", told, "must have exactly one version marked as storage version")


def schema_of(version: Object) -> Mapping[str, Any] | None:
    """``openAPIV3Schema`` of a version, None when it has none."""
    found: Mapping[str, Any] | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return found


def _version_in_go(version: Object) -> Object:
    """A version as Go prints its internal form."""
    return {
        "Name": version.get("name", ""),
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        **dict.fromkeys(
            ("DeprecationWarning", "Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields")
        ),
    }


def _accepted_names(found: Object, causes: Causes) -> None:
    for field in _NAMES:
        value = found.get(field, "")
        # Kinds are in camel case, and otherwise labels.
        if value and names.dns_1035_label(value.lower() if field in {"kind", "listKind"} else value):
            told = ",".join(names.dns_1035_label(value.lower() if field in {"kind", "listKind"} else value))
            causes.invalid(f"spec.names.{field}", value, told)
    for index, name in enumerate(found.get("shortNames") or ()):
        causes.invalid_each(f"spec.names.shortNames[{index}]", name, names.dns_1035_label(name))
    if found.get("kind") and found.get("kind") == found.get("listKind"):
        causes.invalid("spec.names.listKind", found["listKind"], "kind and listKind may not be the same")


def _stored_versions(definition: Object, causes: Causes) -> None:
    stored = (definition.get("status") or {}).get("storedVersions") or []
    if not stored:
        causes.invalid("status.storedVersions", None, "must have at least one stored version")
        return
    spec = definition.get("spec") or {}
    current = [each["name"] for each in spec.get("versions") or () if each.get("storage") and each.get("name")]
    if current and current[-1] not in stored:
        causes.invalid("status.storedVersions", stored, f"must have the storage version {current[-1]}")
    known = {version.get("name") for version in spec.get("versions") or ()}
    for index, name in enumerate(stored):
        if name not in known:
            told = f"missing from spec.versions; {name} was previously a storage version, and must remain in "
            told += "spec.versions until a storage migration ensures no data remains persisted in "
            told += f"{name} and removes {name} from status.storedVersions"
            causes.invalid(f"status.storedVersions[{index}]", name, told)


def _approval(definition: Object, causes: Causes) -> None:
    group = (definition.get("spec") or {}).get("group", "")
    if not group.endswith(tuple(f".{each}" for each in _PROTECTED)) and group not in _PROTECTED:
        return
    # Experimental groups go without.
    if group.endswith((".x-k8s.io", ".x-kubernetes.io")):
        return
    if not definition["metadata"].get("annotations", {}).get(APPROVAL):
        told = f'protected groups must have approval annotation "{APPROVAL}", see https://github.com/kubernetes/enhancements/pull/1111'
        causes.required(f"metadata.annotations[{APPROVAL}]", told)


def _fixed(new: Object, old: Object, causes: Causes) -> None:
    now, before = new["spec"], old["spec"]
    fixed = [(now, before, "spec", "group"), (_names(now), _names(before), "spec.names", "plural")]
    if is_established(old):
        fixed += [(now, before, "spec", "scope"), (_names(now), _names(before), "spec.names", "kind")]
    for value, earlier, path, field in fixed:
        if value.get(field) != earlier.get(field):
            causes.invalid(f"{path}.{field}", value.get(field, ""), "field is immutable")


def condition(definition: Object, type_: str) -> Object | None:
    """A condition of a definition, or None; a copy."""
    for each in (definition.get("status") or {}).get("conditions") or ():
        if each["type"] == type_:
            return copy(each)
    return None


def is_established(definition: Object) -> bool:
    """Whether its resources are served."""
    found = condition(definition, "Established")
    return found is not None and found["status"] == "True"
