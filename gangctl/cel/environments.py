"""The names in expressions of policies, typed as kube-apiserver types them, and expressions that were accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gangctl.cel.ast import Node
from gangctl.cel.declarations.kubernetes import AUTHORIZER as AUTHORIZER_FUNCTIONS
from gangctl.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of


@dataclass(frozen=True, slots=True)
class Environment:
    """The names available to an expression.

    ``roots`` are the variables and their types (``object`` is dyn, as natively); ``variables`` those below
    ``variables.``, which come before the expression. ``minor`` is the Kubernetes minor whose libraries apply, such as
    ``"1.37"``.
    """

    roots: Mapping[str, Type]
    variables: Mapping[str, Type] = field(default_factory=dict)
    minor: str = "1.37"


@dataclass(frozen=True, slots=True)
class CheckedExpression:
    """``text`` as it was written; ``reads`` and ``variables`` are the names it uses, ``functions`` those it calls."""

    text: str
    node: Node
    type: Type
    reads: frozenset[str]
    variables: frozenset[str]
    functions: frozenset[str]
    # Not compared: the ids of two trees of the same text differ.
    types: Mapping[int, Type] = field(default_factory=dict, repr=False, compare=False)
    """The type of every part of ``node``, by its ``id``."""


_KIND: Final = Type("kubernetes.GroupVersionKind", fields={"group": STRING, "version": STRING, "kind": STRING})
_RESOURCE: Final = Type(
    "kubernetes.GroupVersionResource", fields={"group": STRING, "version": STRING, "resource": STRING}
)
_USER: Final = Type(
    "kubernetes.UserInfo",
    fields={"username": STRING, "uid": STRING, "groups": list_of(STRING), "extra": map_of(STRING, list_of(STRING))},
)
REQUEST: Final = Type(
    "kubernetes.AdmissionRequest",
    fields={
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
)
"""``request``: an AdmissionRequest without uid, object and oldObject."""

_METADATA: Final = Type(
    "kubernetes.NamespaceMetadata",
    fields={
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": map_of(STRING, STRING),
        "annotations": map_of(STRING, STRING),
        # In capitals as BuildNamespaceType of the API server declares it; the value has ``uid``, so that this is never
        # there.
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": list_of(STRING),
    },
)
_CONDITION: Final = Type(
    "kubernetes.NamespaceCondition",
    fields={"status": STRING, "type": STRING, "lastTransitionTime": TIMESTAMP, "message": STRING, "reason": STRING},
)
NAMESPACE: Final = Type(
    "kubernetes.Namespace",
    fields={
        "metadata": _METADATA,
        "spec": Type("kubernetes.NamespaceSpec", fields={"finalizers": list_of(STRING)}),
        "status": Type("kubernetes.NamespaceStatus", fields={"conditions": list_of(_CONDITION), "phase": STRING}),
    },
)
"""``namespaceObject``; without ownerReferences and managedFields, as natively."""

AUTHORIZER: Final = AUTHORIZER_FUNCTIONS[0].parameters[0]
"""``authorizer``: declared so that its refusal can name it."""


_NOTHING: Final[Mapping[str, Type]] = {}


def admission(
    variables: Mapping[str, Type] | None = None,
    *,
    params: bool = True,
    computed: Mapping[str, Type] = _NOTHING,
    minor: str = "1.37",
) -> Environment:
    """The environment of matchConditions, variables, validations, messages and audit annotations.

    ``params`` exists where the policy has a paramKind. ``computed`` are the types of gangctl's own variables: none for
    a native policy. ``variables`` are those declared before.
    """
    roots = {
        "object": DYN,
        "oldObject": DYN,
        "request": REQUEST,
        "namespaceObject": NAMESPACE,
        "authorizer": AUTHORIZER,
    }
    if params:
        roots["params"] = DYN
    roots |= computed
    return Environment(roots, dict(variables or {}), minor)
