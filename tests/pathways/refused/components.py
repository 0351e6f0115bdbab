"""Components of Pathways with images, flags and variables of one's own."""

from __future__ import annotations

from typing import Final

from gangctl.pathways.problems import InvalidReason as Why
from tests.pathways.refused.case import Refused
from tests.pathways.samples import Object, component, pathways_job


def _component(title: str, entry: Object, reason: Why, field: str, says: str, *, by_server: bool = False) -> Refused:
    path = f"spec.customComponents[0].{field}"
    return Refused(title, pathways_job(customComponents=[entry]), reason, path, says, by_server)


COMPONENTS: Final = (
    _component(
        "unknown component",
        component("server", image="a/b"),
        Why.INVALID_COMPONENT,
        "componentType",
        "allowed: pathways_server, worker, proxy_server, colocated_python_sidecar",
        by_server=True,
    ),
    _component("no type", {"image": "a/b"}, Why.INVALID_COMPONENT, "componentType", "is required", by_server=True),
    _component("bad image", component("worker", image="a b"), Why.INVALID_IMAGE, "image", "registry.example"),
    _component(
        "sidecar without an image",
        component("colocated_python_sidecar", customFlags=["--x=1"]),
        Why.INVALID_COMPONENT,
        "image",
        "have no container",
        by_server=True,
    ),
    _component(
        "empty flag", component("worker", customFlags=["--a", ""]), Why.INVALID_COMPONENT, "customFlags[1]", "empty"
    ),
    _component(
        "variable with an equals sign",
        component("worker", customEnv=[{"name": "A=B"}]),
        Why.INVALID_ENVIRONMENT,
        "customEnv[0].name",
        "other than =",
    ),
    _component(
        "variable twice",
        component("worker", customEnv=[{"name": "A"}, {"name": "A"}]),
        Why.INVALID_ENVIRONMENT,
        "customEnv[1].name",
        "a second time",
    ),
    _component(
        "nameless variable",
        component("worker", customEnv=[{"value": "A"}]),
        Why.INVALID_ENVIRONMENT,
        "customEnv[0].name",
        "it is empty",
        by_server=True,
    ),
    _component(
        "value and source",
        component("worker", customEnv=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]),
        Why.INVALID_ENVIRONMENT,
        "customEnv[0].valueFrom",
        "one of them",
    ),
    Refused(
        "component twice",
        pathways_job(customComponents=[component("worker", image="a/b"), component("worker", image="a/c")]),
        Why.INVALID_COMPONENT,
        "spec.customComponents[1].componentType",
        "the first is spec.customComponents[0]",
        True,
    ),
    Refused("bad version", pathways_job(pathwaysVersion="a b"), Why.INVALID_IMAGE, "spec.pathwaysVersion", "the tag"),
)
