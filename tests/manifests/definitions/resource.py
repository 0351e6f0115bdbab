"""What definitions of gangctl's own kinds have in common (``apiextensions.k8s.io/v1``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from gangctl.api.meta import API_VERSION

Schema = dict[str, Any]

GROUP, _, VERSION = API_VERSION.partition("/")


def column(name: str, path: str, description: str, kind: str = "string", *, wide: bool = False) -> dict[str, Any]:
    """A column of ``kubectl get``; ``wide`` is one of ``-o wide`` only."""
    described = {"description": description} if description else {}
    return {"name": name, "type": kind, "jsonPath": path, **described, **({"priority": 1} if wide else {})}


def definition_of(
    kind: str,
    plural: str,
    schema: Schema,
    *,
    scope: Literal["Cluster", "Namespaced"],
    short_names: Sequence[str] = (),
    columns: Sequence[dict[str, Any]],
    status: bool,
) -> dict[str, Any]:
    """The definition of a kind of gangctl's with this structural schema."""
    short = {"shortNames": list(short_names)} if short_names else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                **short,
                "categories": ["gangctl"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **({"subresources": {"status": {}}} if status else {}),
                    "additionalPrinterColumns": list(columns),
                }
            ],
        },
    }
