"""Ports that Pathways has itself, and such as cannot be."""

from __future__ import annotations

from typing import Final

from gangctl.pathways.problems import InvalidReason as Why
from tests.pathways.refused.case import COLOCATED, POD, Refused, ports, user

PORTS: Final = (
    *(
        Refused(
            f"port {number}",
            user(ports({"containerPort": number})),
            Why.PORT_CONFLICT,
            f"{POD}.containers[0].ports[0].containerPort",
            "29000, 29001, 29002",
        )
        for number in (29000, 29001, 29002)
    ),
    *(
        Refused(
            f"port {number} beside workers",
            user(ports({"containerPort": 1}, {"containerPort": number}), mode=COLOCATED),
            Why.PORT_CONFLICT,
            f"{POD}.containers[0].ports[1].containerPort",
            "29005, 29006, 8471, 8080, 50051",
        )
        for number in (29000, 29005, 29006, 8471, 8080, 50051)
    ),
    Refused(
        "port of an init container",
        user(initContainers=[ports({"containerPort": 29000}, name="fetch")]),
        Why.PORT_CONFLICT,
        f"{POD}.initContainers[0].ports[0].containerPort",
        "29000",
    ),
    Refused(
        "another port on the host",
        user(ports({"containerPort": 9090, "hostPort": 80})),
        Why.PORT_CONFLICT,
        f"{POD}.containers[0].ports[0].hostPort",
        "must be 9090",
    ),
    Refused(
        "one port twice",
        user(ports({"containerPort": 9090}), ports({"containerPort": 9090}, name="log")),
        Why.PORT_CONFLICT,
        f"{POD}.containers[1].ports[0].containerPort",
        "open already at",
    ),
    Refused(
        "no port",
        user(ports({"containerPort": 70_000})),
        Why.MALFORMED,
        f"{POD}.containers[0].ports[0].containerPort",
        "between 1 and 65535",
    ),
)
