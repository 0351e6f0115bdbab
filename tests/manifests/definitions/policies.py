"""CustomResourceDefinitions of GangPolicy and GangPolicyException, generated from the models.

The models define the fields; this module adds what an API server needs beyond that: which lists are maps or sets, which
defaults it writes, and the rules over several fields, in CEL within its cost limit (``apiextensions.k8s.io/v1``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from gangctl.api.meta import JOBSET_GROUP
from gangctl.policy.model import (
    LABEL_VALUE_CHARACTERS,
    Accelerator,
    Defaults,
    GangPolicyExceptionSpec,
    GangPolicySpec,
    LabelSelectorRequirement,
    MatchResources,
    ParamRef,
    QueueChoice,
    QueueMatch,
    ResourceRule,
    Validation,
)
from gangctl.policy.review import JOBSETS
from tests.manifests.definitions.policystatus import GangPolicy, GangPolicyException, PolicyStatus
from tests.manifests.definitions.resource import Schema, column, definition_of

POLICIES: Final = "gangpolicies"
EXCEPTIONS: Final = "gangpolicyexceptions"

_KEPT: Final = frozenset(
    {"type", "description", "enum", "format", "pattern", "minimum", "maximum", "minLength", "maxLength"}
    | {"items", "minItems", "maxItems", "properties", "required", "additionalProperties"}
    | {"minProperties", "maxProperties"}
)

_WRITTEN_DEFAULTS: Final[Mapping[type[BaseModel], Mapping[str, Any]]] = {
    GangPolicySpec: {"validationActions": ["Deny"], "background": True},
    MatchResources: {"matchPolicy": "Equivalent"},
    ResourceRule: {"scope": "*"},
}
"""Defaults that the API server writes into the object, visible to all users; the others are gangctl's own."""

_LISTS: Final[Mapping[type[BaseModel], Mapping[str, Mapping[str, Any]]]] = {
    GangPolicySpec: {
        "matchConditions": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "variables": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "auditAnnotations": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]},
        "validationActions": {"x-kubernetes-list-type": "set"},
    },
    GangPolicyExceptionSpec: {
        "policies": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    },
    PolicyStatus: {"conditions": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}},
}

_ONE_LINE: Final = r"^\s*[^\r\n]*\s*$"
_PATTERNS: Final[Mapping[type[BaseModel], Mapping[str, str]]] = {Validation: {"message": _ONE_LINE}}


def _rule(rule: str, message: str) -> dict[str, str]:
    return {"rule": rule, "message": message}


_SHORT_QUEUE: Final = _rule(
    f"!has(self.queue) || size(self.queue) <= {LABEL_VALUE_CHARACTERS}",
    f"JobSets name their queue in a label, which holds {LABEL_VALUE_CHARACTERS} characters: make a LocalQueue with a "
    "shorter name",
)
_RULES: Final[Mapping[type[BaseModel], list[dict[str, str]]]] = {
    GangPolicySpec: [
        _rule(
            "has(self.defaults) || (has(self.validations) && size(self.validations) > 0) "
            "|| (has(self.auditAnnotations) && size(self.auditAnnotations) > 0)",
            "a policy needs at least one of validations, auditAnnotations and defaults",
        ),
        _rule(
            "!('Deny' in self.validationActions && 'Warn' in self.validationActions)",
            "validationActions must not contain both Deny and Warn: the answer would say the same thing twice",
        ),
        _rule("!has(self.paramRef) || has(self.paramKind)", "paramRef needs the kind of the objects: paramKind"),
        _rule(
            "!has(self.validations) || self.validations.all(v, !has(v.name) "
            "|| self.validations.exists_one(w, has(w.name) && w.name == v.name))",
            "names of validations must differ",
        ),
    ],
    ResourceRule: [
        _rule(
            f"self.apiGroups == ['{JOBSET_GROUP}'] && self.resources == ['{JOBSETS}']",
            f"a GangPolicy is about JobSets: write {JOBSET_GROUP} and {JOBSETS} alone, or leave matchConstraints out",
        )
    ],
    LabelSelectorRequirement: [
        _rule(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "In and NotIn need values, Exists and DoesNotExist take none",
        )
    ],
    ParamRef: [
        _rule(
            "(has(self.name) && size(self.name) > 0) != has(self.selector)",
            "one of name or selector must be specified, and not both",
        )
    ],
    Defaults: [
        _rule(
            "!(has(self.gangMode) && self.gangMode == 'Gang' && has(self.replicatedJobGangMode))",
            "replicatedJobGangMode cannot stand beside gangMode Gang, which is about all replicated jobs",
        ),
        _SHORT_QUEUE,
    ],
    QueueChoice: [_SHORT_QUEUE],
    QueueMatch: [
        _rule(
            "has(self.namespaceSelector) || has(self.objectSelector) || has(self.accelerator) "
            "|| (has(self.priorityClasses) && size(self.priorityClasses) > 0)",
            "needs at least one condition; what all other JobSets get is spec.defaults.queue",
        )
    ],
    Accelerator: [
        _rule(
            "(has(self.resource) && size(self.resource) > 0) || (has(self.nodeLabels) && size(self.nodeLabels) > 0)",
            "needs resource, nodeLabels, or both",
        )
    ],
}


def definitions() -> dict[str, dict[str, Any]]:
    """The definitions by file name."""
    return {
        f"{POLICIES}.yaml": definition(
            GangPolicy,
            POLICIES,
            short_names=["gpol"],
            columns=[
                column("Actions", ".spec.validationActions", "What follows when a rule is broken."),
                column("Failure", ".spec.failurePolicy", "What follows when a rule cannot be evaluated."),
                column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether it is in force."),
                column("Violations", ".status.results.fail", "Rules that existing JobSets break.", "integer"),
                column("Age", ".metadata.creationTimestamp", "", "date"),
            ],
        ),
        f"{EXCEPTIONS}.yaml": definition(
            GangPolicyException,
            EXCEPTIONS,
            short_names=["gpolex"],
            columns=[
                # All of it as JSON: of several results of a path only the first would be shown.
                column("Policies", ".spec.policies", "Policies and rules that it is an exception from."),
                column("Owner", ".spec.owner", "Who answers for it."),
                # With the type date, kubectl would show how long ago it was.
                column("Expires", ".spec.expiresAt", "When it ends."),
                column("Active", ".status.conditions[?(@.type=='Active')].status", "Whether it has an effect."),
                column("Age", ".metadata.creationTimestamp", "", "date"),
            ],
        ),
    }


def definition(
    model: type[BaseModel],
    plural: str,
    *,
    short_names: list[str],
    columns: list[dict[str, Any]],
    status: bool = True,
) -> dict[str, Any]:
    """The definition of a cluster-scoped kind; ``status`` adds the status subresource."""
    schema = schema_of(model)
    return definition_of(
        model.__name__, plural, schema, scope="Cluster", short_names=short_names, columns=columns, status=status
    )


def schema_of(model: type[BaseModel]) -> Schema:
    """The structural schema of a whole object; ``metadata`` is the API server's own."""
    written = model.model_json_schema(by_alias=True)
    schema = _structural(written, written.get("$defs", {}))
    properties = schema["properties"]
    properties["apiVersion"] = properties["kind"] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    schema["required"] = ["spec"]
    return schema


def _models() -> dict[str, type[BaseModel]]:
    return {model.__name__: model for table in (_WRITTEN_DEFAULTS, _LISTS, _PATTERNS, _RULES) for model in table}


def _structural(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """One schema without references, titles and null, for which structural schemas have other rules."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        return _structural({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions)
    if "anyOf" in schema:
        (only,) = [each for each in schema["anyOf"] if each.get("type") != "null"]
        return _structural({**only, **{key: value for key, value in schema.items() if key != "anyOf"}}, definitions)
    found = {key: value for key, value in schema.items() if key in _KEPT}
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if "description" in found:
        found["description"] = found["description"].replace("``", "")
    if found.get("additionalProperties") is False:
        del found["additionalProperties"]  # unknown fields are pruned, or refused where the client asks for that
    elif "additionalProperties" in found:
        found["additionalProperties"] = _structural(found["additionalProperties"], definitions)
    if "items" in found:
        found["items"] = _structural(found["items"], definitions)
    if "properties" in found:
        found["properties"] = {key: _structural(each, definitions) for key, each in found["properties"].items()}
    return _with_extensions(found, _models().get(schema.get("title", "")))


def _with_extensions(schema: Schema, model: type[BaseModel] | None) -> Schema:
    if model is None:
        return schema
    for key, value in _WRITTEN_DEFAULTS.get(model, {}).items():
        schema["properties"][key]["default"] = value
    for key, extensions in _LISTS.get(model, {}).items():
        schema["properties"][key].update(extensions)
    for key, pattern in _PATTERNS.get(model, {}).items():
        schema["properties"][key]["pattern"] = pattern
    if model in _RULES:
        schema["x-kubernetes-validations"] = _RULES[model]
    return schema
