"""``spec.customComponents``: what a person changes about the containers that gangctl adds."""

from __future__ import annotations

from gangctl.api.reader import Reader
from gangctl.errors import ErrorKind
from gangctl.pathways.job import Component, ComponentType
from gangctl.pathways.problems import InvalidReason, Problem, listed, near, problem, quoted
from gangctl.pathways.reading.fields import MOST_ENTRIES, texts
from gangctl.pathways.reading.podtemplate import read_environment


def read_components(spec: Reader, problems: list[Problem]) -> dict[ComponentType, Component]:
    components: dict[ComponentType, Component] = {}
    for entry in spec.children("customComponents", MOST_ENTRIES):
        component = Component(
            entry.path, entry.string("image"), texts(entry, "customFlags"), read_environment(entry, "customEnv")
        )
        kind = _read_component_type(entry, problems)
        if kind is not None and kind in components:
            detail = f'a second entry for "{kind}", the first is {components[kind].path}: write one entry for each'
            path = f"{entry.path}.componentType"
            problems.append(problem(InvalidReason.INVALID_COMPONENT, path, detail, ErrorKind.DUPLICATE))
        elif kind is not None:
            components[kind] = component
    return components


def _read_component_type(entry: Reader, problems: list[Problem]) -> ComponentType | None:
    value = entry.string("componentType")
    for kind in ComponentType:
        if kind == value:
            return kind
    said = f"unsupported value {quoted(value)}" if value else "is required"
    detail = f"{said}{near(value, ComponentType)}, allowed: {listed(ComponentType)}"
    error = ErrorKind.NOT_SUPPORTED if value else ErrorKind.REQUIRED
    problems.append(problem(InvalidReason.INVALID_COMPONENT, f"{entry.path}.componentType", detail, error))
    return None
