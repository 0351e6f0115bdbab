"""The user's pod, together with the containers that gangctl adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.quantity import MAX
from gangctl.errors import ErrorKind, FieldError, shown
from gangctl.fit.words import show
from gangctl.gang.naming import is_dns_label
from gangctl.gang.reasons import Reason
from gangctl.gang.requests import Requests, as_integers, pod_requests, read_list
from gangctl.pathways.checks.findings import Findings
from gangctl.pathways.origins import plain
from gangctl.pathways.problems import InvalidReason, listed
from gangctl.pathways.rendering.headroom import proxy_resources, resource_manager_resources
from gangctl.pathways.words import (
    HEAD_PORTS,
    POD,
    PROXY_CONTAINER,
    RESOURCE_MANAGER_CONTAINER,
    SIDECAR_PORT,
    TEMPLATE,
    TPU,
    WORKER_PORTS,
)

RESERVED: Final = (RESOURCE_MANAGER_CONTAINER, PROXY_CONTAINER)
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
    _check_presence(found, [each.name for each in containers if not each.init])
    _check_each(found, containers)
    _check_ports(found, containers)
    for each in containers:
        _check_resources(found, f"{each.path}.resources", each.value.get("resources", {}))
    _check_resources(found, f"{POD}.resources", pod.get("resources", {}))
    policy = pod.get("restartPolicy")
    if policy is not None and policy not in _RESTART_POLICIES:
        detail = f"unsupported value {shown(policy)}, allowed in a Job: {listed(_RESTART_POLICIES)}"
        found.refuse(InvalidReason.MALFORMED, f"{POD}.restartPolicy", detail, ErrorKind.NOT_SUPPORTED)
    others = sorted({*found.job.template.get("metadata", {})} - {"labels", "annotations"})
    if others:
        place = found.place(f"{TEMPLATE}.metadata")
        found.notice(Reason.NO_EFFECT, f"{place}: of it only labels and annotations are used, not {listed(others)}")
    seconds = pod.get("terminationGracePeriodSeconds", 0)
    if seconds < 0:
        path = f"{POD}.terminationGracePeriodSeconds"
        found.refuse(InvalidReason.INVALID_GRACE_PERIOD, path, f"must be at least 0 seconds, got {seconds}")


def _containers(pod: Mapping[str, Any]) -> Iterator[Container]:
    for field in ("initContainers", "containers"):
        for index, value in enumerate(pod.get(field, ())):
            yield Container(f"{POD}.{field}[{index}]", value, field == "initContainers")


def _check_presence(found: Findings, names: list[str]) -> None:
    if not names:
        detail = "must have at least one container; leave the template out where a client connects from outside"
        found.refuse(InvalidReason.MISSING_CONTAINERS, f"{POD}.containers", detail, ErrorKind.REQUIRED)
    elif found.job.main_container not in names:
        detail = (
            f"there is no container {shown(found.job.main_container)} in {found.place(f'{POD}.containers')}, which "
            f"has {listed(shown(name) for name in names[:8])}: one of them has to learn where the proxy is"
        )
        found.refuse(InvalidReason.MISSING_MAIN_CONTAINER, "spec.controller.mainContainerName", detail)


def _check_each(found: Findings, containers: list[Container]) -> None:
    seen: set[str] = set()
    for each in containers:
        path = f"{each.path}.name"
        if not each.name:
            found.refuse(InvalidReason.MALFORMED, path, "is required", ErrorKind.REQUIRED)
        elif each.name in RESERVED:
            detail = f"{shown(each.name)} is the name of a container that gangctl adds to this pod: choose another"
            found.refuse(InvalidReason.RESERVED_CONTAINER_NAME, path, detail, ErrorKind.FORBIDDEN)
        elif each.name in seen:
            detail = f"{shown(each.name)} is the name of another container of this pod: names must differ"
            found.refuse(InvalidReason.MALFORMED, path, detail, ErrorKind.DUPLICATE)
        elif not is_dns_label(each.name):
            detail = f"{shown(each.name)} cannot name a container: lower case letters, digits and -, at most 63"
            found.refuse(InvalidReason.INVALID_NAME, path, detail)
        seen.add(each.name)
        image = each.value.get("image", "")
        if not image or image != image.strip():
            detail = "must name an image, without blanks around it" if image else "is required"
            found.refuse(InvalidReason.INVALID_IMAGE, f"{each.path}.image", detail, ErrorKind.REQUIRED)
        for index, variable in enumerate(each.value.get("env", ())):
            if not variable.get("name"):
                name = f"{each.path}.env[{index}].name"
                found.refuse(InvalidReason.INVALID_ENVIRONMENT, name, "is required", ErrorKind.REQUIRED)


def _check_resources(found: Findings, path: str, resources: Mapping[str, Any]) -> None:
    check_amounts(found, path, resources.get("requests", {}), resources.get("limits", {}))
    if found.job.colocated:
        for field in ("limits", "requests"):
            if TPU in resources.get(field, {}):
                detail = "must not be asked for beside the workers: all chips of the node are theirs"
                place = f"{path}.{field}[{TPU}]"
                found.refuse(InvalidReason.INVALID_RESOURCES, place, detail, ErrorKind.FORBIDDEN)
                return


def check_pod_size(found: Findings) -> None:
    """Pod-level requests include those of the containers that gangctl adds.

    Every quantity was checked before.
    """
    job, pod = found.job, (found.job.template or {}).get("spec", {})
    resources = pod.get("resources", {})
    added = (resource_manager_resources(job), proxy_resources(job))
    sidecars = [{"restartPolicy": "Always", "resources": plain(each)} for each in added]
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
            path = FieldPath.parse(f"{POD}.resources.{field}").child(name)
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
    taken = (*HEAD_PORTS, *WORKER_PORTS, SIDECAR_PORT) if colocated else HEAD_PORTS
    whose = "head and workers" if colocated else "the head"
    open_ports: dict[tuple[str, int], str] = {}
    for each in containers:
        stays = not each.init or each.value.get("restartPolicy") == "Always"
        for index, port in enumerate(each.value.get("ports", ())):
            place = f"{each.path}.ports[{index}].containerPort"
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
                found.refuse(InvalidReason.PORT_CONFLICT, f"{each.path}.ports[{index}].hostPort", detail)
            elif stays and (protocol, number) in open_ports:
                detail = f"{number} is open already at {found.place(open_ports[protocol, number])}: choose another"
                found.refuse(InvalidReason.PORT_CONFLICT, place, detail, ErrorKind.DUPLICATE)
            elif stays:
                open_ports[protocol, number] = place
