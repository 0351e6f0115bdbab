"""The user's pod, together with the containers that gangctl adds; and what the user may change about these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.names import is_dns_label, variable_name
from gangctl.api.quantity import MAX
from gangctl.api.requests import Requests, as_integers, pod_requests, read_list
from gangctl.errors import ErrorKind, FieldError, shown
from gangctl.fit.report import show
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.signals import unheard
from gangctl.pathways import words
from gangctl.pathways.job import ComponentChanges, ComponentType, PathwaysJob
from gangctl.pathways.problems import MOST_PROBLEMS, InvalidReason, Problem, listed, problem
from gangctl.pathways.rendering.containers import proxy_resources, resource_manager_resources
from gangctl.pathways.result import plain


class Findings:
    """Problems and notices, each at the source of the value: a field, or a flag."""

    __slots__ = ("job", "notices", "problems")

    def __init__(self, job: PathwaysJob) -> None:
        """Start without findings."""
        self.job = job
        self.problems: list[Problem] = []
        self.notices: list[Notice] = []

    def place(self, path: str) -> str:
        """The name of the field at ``path`` for the user."""
        return self.job.origin(path).place

    def refuse(self, reason: InvalidReason, path: str, detail: str, kind: ErrorKind = ErrorKind.INVALID) -> None:
        """A problem of the field at ``path``; ``detail`` is what is allowed."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem(reason, self.place(path), detail, kind))

    def refuse_all(self, reason: InvalidReason, errors: Iterable[FieldError]) -> None:
        """Add problems of another check."""
        for error in errors:
            self.refuse(reason, error.path, error.detail, error.kind)

    def notice(self, reason: Reason, message: str) -> None:
        """Add a notice, which prevents nothing."""
        self.notices.append(Notice(reason, message))


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
    if version and not _VERSION.fullmatch(version):
        detail = f"must be the tag of an image, letters, digits, ., _ and -, at most 128; got {shown(version)}"
        found.refuse(InvalidReason.INVALID_IMAGE, "spec.pathwaysVersion", detail)
    if registry is not None and not (len(registry) <= _LONGEST and _REGISTRY.fullmatch(registry)):
        detail = f"must be a host and perhaps a path, such as registry.example/pathways; got {shown(registry)}"
        found.refuse(InvalidReason.INVALID_IMAGE, words.option_path("imageRegistry"), detail)


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


def _check_environment(found: Findings, component: ComponentChanges) -> None:
    seen: set[str] = set()
    for index, variable in enumerate(component.env):
        path = f"{component.path}.customEnv[{index}]"
        name = variable.get("name", "")
        if not name or variable_name(name):
            said = f"got {shown(name)}" if name else "it is empty"
            detail = f"must be printable ASCII characters other than =; {said}"
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


RESERVED: Final = (words.RESOURCE_MANAGER_CONTAINER, words.PROXY_CONTAINER)
_RESTART_POLICIES: Final = ("OnFailure", "Never")
_PORTS: Final = range(1, 65536)
_TCP: Final = "TCP"


@dataclass(frozen=True, slots=True)
class Container:
    """One container of the user's pod."""

    path: str
    value: Mapping[str, Any]
    init: bool

    @property
    def name(self) -> str:
        """Empty if it has none."""
        return str(self.value.get("name", ""))


def check_template(found: Findings) -> None:
    """The user's pod; there is none if a client connects from outside."""
    if found.job.template is None:
        return
    pod = found.job.template.get("spec", {})
    containers = list(_containers(pod))
    _check_presence(found, [container.name for container in containers if not container.init])
    _check_each(found, containers)
    _check_ports(found, containers)
    for container in containers:
        _check_resources(found, f"{container.path}.resources", container.value.get("resources", {}))
    _check_resources(found, f"{words.POD}.resources", pod.get("resources", {}))
    policy = pod.get("restartPolicy")
    if policy and policy not in _RESTART_POLICIES:
        detail = f"unsupported value {shown(policy)}, allowed in a Job: {listed(_RESTART_POLICIES)}"
        found.refuse(InvalidReason.MALFORMED, f"{words.POD}.restartPolicy", detail, ErrorKind.NOT_SUPPORTED)
    others = sorted({*found.job.template.get("metadata", {})} - {"labels", "annotations"})
    if others:
        place = found.place(f"{words.TEMPLATE}.metadata")
        found.notice(Reason.NO_EFFECT, f"{place}: of it only labels and annotations are used, not {listed(others)}")
    seconds = pod.get("terminationGracePeriodSeconds", 0)
    if seconds < 0:
        path = f"{words.POD}.terminationGracePeriodSeconds"
        found.refuse(InvalidReason.INVALID_GRACE_PERIOD, path, f"must be at least 0 seconds, got {seconds}")


def _containers(pod: Mapping[str, Any]) -> Iterator[Container]:
    for field in ("initContainers", "containers"):
        for index, value in enumerate(pod.get(field, ())):
            yield Container(f"{words.POD}.{field}[{index}]", value, field == "initContainers")


def _check_presence(found: Findings, names: list[str]) -> None:
    if not names:
        detail = "must have at least one container; leave the template out where a client connects from outside"
        found.refuse(InvalidReason.MISSING_CONTAINERS, f"{words.POD}.containers", detail, ErrorKind.REQUIRED)
    elif found.job.main_container not in names:
        detail = (
            f"there is no container {shown(found.job.main_container)} in {found.place(f'{words.POD}.containers')}, "
            f"which has {listed(shown(name) for name in names[:8])}: one of them has to learn where the proxy is"
        )
        found.refuse(InvalidReason.MISSING_MAIN_CONTAINER, "spec.controller.mainContainerName", detail)


def _check_each(found: Findings, containers: list[Container]) -> None:
    seen: set[str] = set()
    for container in containers:
        path = f"{container.path}.name"
        if not container.name:
            found.refuse(InvalidReason.MALFORMED, path, "is required", ErrorKind.REQUIRED)
        elif container.name in RESERVED:
            detail = f"{shown(container.name)} is the name of a container that gangctl adds to this pod: choose another"
            found.refuse(InvalidReason.RESERVED_CONTAINER_NAME, path, detail, ErrorKind.FORBIDDEN)
        elif container.name in seen:
            detail = f"{shown(container.name)} is the name of another container of this pod: names must differ"
            found.refuse(InvalidReason.MALFORMED, path, detail, ErrorKind.DUPLICATE)
        elif not is_dns_label(container.name):
            detail = f"{shown(container.name)} cannot name a container: lower case letters, digits and -, at most 63"
            found.refuse(InvalidReason.INVALID_NAME, path, detail)
        seen.add(container.name)
        if why := unheard(container.value) if not container.init else "":
            found.notice(Reason.SIGNAL_LOST, f"{found.place(f'{container.path}.command')} is {why}.")
        image = container.value.get("image", "")
        if not image or image != image.strip():
            detail = "must name an image, without blanks around it" if image else "is required"
            found.refuse(InvalidReason.INVALID_IMAGE, f"{container.path}.image", detail, ErrorKind.REQUIRED)
        for index, variable in enumerate(container.value.get("env", ())):
            if not variable.get("name"):
                name = f"{container.path}.env[{index}].name"
                found.refuse(InvalidReason.INVALID_ENVIRONMENT, name, "is required", ErrorKind.REQUIRED)


def _check_resources(found: Findings, path: str, resources: Mapping[str, Any]) -> None:
    check_amounts(found, path, resources.get("requests", {}), resources.get("limits", {}))
    if found.job.colocated:
        for field in ("limits", "requests"):
            if words.TPU in resources.get(field, {}):
                detail = "must not be asked for beside the workers: all chips of the node are theirs"
                place = f"{path}.{field}[{words.TPU}]"
                found.refuse(InvalidReason.INVALID_RESOURCES, place, detail, ErrorKind.FORBIDDEN)
                return


def check_pod_size(found: Findings) -> None:
    """Pod-level requests include those of the containers that gangctl adds.

    Every quantity was checked before.
    """
    job, pod = found.job, (found.job.template or {}).get("spec", {})
    resources = pod.get("resources", {})
    added = (resource_manager_resources(job), proxy_resources(job))
    # By Always they are sidecars, whose requests are added to those of the containers.
    sidecars = [{"restartPolicy": "Always", "resources": plain(container)} for container in added]
    init = [*pod.get("initContainers", ()), *sidecars]
    needed = as_integers(pod_requests({"containers": pod.get("containers", []), "initContainers": init})[0])
    requests, _ = pod_requests({"resources": resources})
    for name, amount in as_integers(requests).items():
        if name in requests and amount < needed.get(name, 0):
            field = "requests" if name in resources.get("requests", {}) else "limits"
            detail = (
                f"must be at least {show(name, needed[name])}, which its containers request together, "
                f"{' and '.join(RESERVED)} included; got {resources[field][name]}"
            )
            path = FieldPath.parse(f"{words.POD}.resources.{field}").child(name)
            found.refuse(InvalidReason.INVALID_RESOURCES, str(path), detail)


def check_amounts(found: Findings, path: str, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> None:
    """Requests and limits of one container are quantities, and no request is above its limit."""
    asked = _amounts(found, f"{path}.requests", requests)
    limited = _amounts(found, f"{path}.limits", limits)
    for name, amount in asked.items():
        if name in limited and amount > limited[name]:
            detail = f"must be at most the limit, {limits[name]}; got {requests[name]}"
            place = str(FieldPath.parse(f"{path}.requests").child(name))
            found.refuse(InvalidReason.INVALID_RESOURCES, place, detail)


def _amounts(found: Findings, path: str, written: Mapping[str, Any]) -> Requests:
    """The valid quantities."""
    errors: list[FieldError] = []
    sound: dict[str, Any] = {}
    for name, amount in written.items():
        if isinstance(amount, int) and abs(amount) > MAX:
            detail = f"must be at least 0 and at most {MAX} where it has no unit"
            errors.append(FieldError(f"{path}[{name}]", ErrorKind.INVALID, detail))
        else:
            sound[name] = amount
    amounts = read_list(sound, FieldPath.parse(path), errors)
    found.refuse_all(InvalidReason.INVALID_RESOURCES, errors)
    return amounts


def _check_ports(found: Findings, containers: Sequence[Container]) -> None:
    """Ports must differ from Pathways' own, and from each other's if the containers run at the same time.

    The head's pod uses the network of its node, so that every port in it is one of the node's.
    """
    colocated = found.job.colocated
    taken = (*words.HEAD_PORTS, *words.WORKER_PORTS, words.SIDECAR_PORT) if colocated else words.HEAD_PORTS
    whose = "head and workers" if colocated else "the head"
    open_ports: dict[tuple[str, int], str] = {}
    for container in containers:
        # Other init containers have ended, and left their ports, when the next container starts.
        stays = not container.init or container.value.get("restartPolicy") == "Always"
        for index, port in enumerate(container.value.get("ports", ())):
            place = f"{container.path}.ports[{index}].containerPort"
            number, protocol = port.get("containerPort", 0), port.get("protocol", _TCP)
            if number not in _PORTS:
                found.refuse(InvalidReason.MALFORMED, place, f"must be between 1 and {_PORTS[-1]}, got {number}")
            elif protocol == _TCP and number in taken:
                detail = f"{number} is one of Pathways' own on the node of {whose}: {listed(map(str, taken))}"
                found.refuse(InvalidReason.PORT_CONFLICT, place, detail, ErrorKind.FORBIDDEN)
            elif port.get("hostPort", number) not in {0, number}:
                detail = (
                    f"must be {number}, the containerPort, or be left out: the pod uses its node's network; "
                    f"got {port['hostPort']}"
                )
                found.refuse(InvalidReason.PORT_CONFLICT, f"{container.path}.ports[{index}].hostPort", detail)
            elif stays and (protocol, number) in open_ports:
                detail = f"{number} is open already at {found.place(open_ports[protocol, number])}: choose another"
                found.refuse(InvalidReason.PORT_CONFLICT, place, detail, ErrorKind.DUPLICATE)
            elif stays:
                open_ports[protocol, number] = place
