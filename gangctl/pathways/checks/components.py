"""The containers that gangctl adds: what the user may change about them, and valid images."""

from __future__ import annotations

import re
from typing import Final

from gangctl.errors import ErrorKind, shown
from gangctl.gang.reasons import Reason
from gangctl.pathways.checks.findings import Findings
from gangctl.pathways.job import Component, ComponentType
from gangctl.pathways.problems import InvalidReason
from gangctl.pathways.words import option_path

_POSIX: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IMAGE_FORM: Final = "an image such as registry.example/team/image:tag or image@sha256:..."

# References of container images, as container runtimes read them (distribution/reference).
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN_PART: Final = r"[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?"
_DOMAIN: Final = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_NAME: Final = rf"(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*"
_TAG: Final = r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE: Final = re.compile(rf"{_NAME}(?::{_TAG})?(?:@{_DIGEST})?")
_REGISTRY: Final = re.compile(rf"{_DOMAIN}(?:/{_PART})*/?")
_VERSION: Final = re.compile(_TAG)
_LONGEST: Final = 512


def check_images(found: Findings) -> None:
    """Registry of images without an image of the component's own."""
    version, registry = found.job.pathways_version, found.job.options.image_registry
    if version and not is_tag(version):
        detail = f"must be the tag of an image, letters, digits, ., _ and -, at most 128; got {shown(version)}"
        found.refuse(InvalidReason.INVALID_IMAGE, "spec.pathwaysVersion", detail)
    if registry is not None and not is_registry(registry):
        detail = f"must be a host and perhaps a path, such as registry.example/pathways; got {shown(registry)}"
        found.refuse(InvalidReason.INVALID_IMAGE, option_path("imageRegistry"), detail)


def check_components(found: Findings) -> None:
    """Every entry of ``customComponents``."""
    for kind, component in found.job.components.items():
        if component.image and not is_image(component.image):
            detail = f"must be {_IMAGE_FORM}; got {shown(component.image)}"
            found.refuse(InvalidReason.INVALID_IMAGE, f"{component.path}.image", detail)
        if kind is ComponentType.SIDECAR and not component.image and (component.flags or component.env):
            detail = f"is required: flags and environment of the {kind} have no container without one"
            found.refuse(InvalidReason.INVALID_COMPONENT, f"{component.path}.image", detail, ErrorKind.REQUIRED)
        for index, flag in enumerate(component.flags):
            if not flag.strip():
                detail = "must not be empty: the program would take it for an argument"
                found.refuse(InvalidReason.INVALID_COMPONENT, f"{component.path}.customFlags[{index}]", detail)
        _check_environment(found, component)
        if not (component.image or component.flags or component.env):
            found.notice(Reason.NO_EFFECT, f"{found.place(component.path)} changes nothing about the {kind}")


def _check_environment(found: Findings, component: Component) -> None:
    seen: set[str] = set()
    for index, variable in enumerate(component.env):
        path = f"{component.path}.customEnv[{index}]"
        name = variable.get("name", "")
        if not _POSIX.fullmatch(name):
            said = f"got {shown(name)}" if name else "it is empty"
            detail = f"must be letters, digits and _, first no digit; {said}"
            found.refuse(InvalidReason.INVALID_ENVIRONMENT, f"{path}.name", detail)
        elif name in seen:
            detail = f"{shown(name)} is set a second time: write each variable once"
            found.refuse(InvalidReason.INVALID_ENVIRONMENT, f"{path}.name", detail, ErrorKind.DUPLICATE)
        seen.add(name)
        if variable.get("value") and variable.get("valueFrom"):
            detail = "must not be set beside value: a variable has one of them"
            found.refuse(InvalidReason.INVALID_ENVIRONMENT, f"{path}.valueFrom", detail, ErrorKind.FORBIDDEN)


def is_image(text: str) -> bool:
    """Whether a text names an image, with or without tag and digest."""
    return len(text) <= _LONGEST and _REFERENCE.fullmatch(text) is not None


def is_registry(text: str) -> bool:
    """Whether a text is a valid prefix of an image: a host, and optionally a path."""
    return len(text) <= _LONGEST and _REGISTRY.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    """Whether a text can be an image's tag."""
    return _VERSION.fullmatch(text) is not None
