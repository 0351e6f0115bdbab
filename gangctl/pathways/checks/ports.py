"""Ports: the head's pod uses the network of its node, so that every port in it is one of the node's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gangctl.errors import ErrorKind
from gangctl.pathways.checks.findings import Findings
from gangctl.pathways.problems import InvalidReason
from gangctl.pathways.wording import listed
from gangctl.pathways.words import HEAD_PORTS, SIDECAR_PORT, WORKER_PORTS

_PORTS: Final = range(1, 65536)
_TCP: Final = "TCP"


def check_ports(found: Findings, containers: Sequence[tuple[str, Mapping[str, Any], bool]]) -> None:
    """Ports of the user's containers, each with its path and whether it is an init container.

    They must be free of Pathways' own, and of one another's where the containers run at the same time.
    """
    colocated = found.job.colocated
    taken = (*HEAD_PORTS, *WORKER_PORTS, SIDECAR_PORT) if colocated else HEAD_PORTS
    whose = "head and workers" if colocated else "the head"
    open_ports: dict[tuple[str, int], str] = {}
    for path, container, init in containers:
        stays = not init or container.get("restartPolicy") == "Always"
        for index, port in enumerate(container.get("ports", ())):
            place = f"{path}.ports[{index}].containerPort"
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
                found.refuse(InvalidReason.PORT_CONFLICT, f"{path}.ports[{index}].hostPort", detail)
            elif stays and (protocol, number) in open_ports:
                detail = f"{number} is open already at {found.place(open_ports[protocol, number])}: choose another"
                found.refuse(InvalidReason.PORT_CONFLICT, place, detail, ErrorKind.DUPLICATE)
            elif stays:
                open_ports[protocol, number] = place
