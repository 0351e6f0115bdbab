"""What the filters of the scheduler refuse with, in short words, and what helps.

The texts are those of ``pkg/scheduler/framework`` of Kubernetes 1.35 to 1.37.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Filter:
    """What a filter of the scheduler says of nodes or of a pod, in short words, and what helps."""

    text: re.Pattern[str]
    words: str
    remedy: str

    @classmethod
    def of(cls, text: str, words: str, remedy: str) -> Filter:
        """``text`` is a regular expression."""
        return cls(re.compile(text, re.DOTALL), words, remedy)


SIZE: Final[tuple[Filter, ...]] = (
    Filter.of(r"Insufficient (\S{1,253})", r"short of \1", "wait for others to finish, add nodes, or ask for less"),
    Filter.of(r"Too many pods", "full of pods", "wait for others to finish, add nodes, or ask for less"),
)
"""Of the size of the gang and of the nodes, not of which nodes its pods may use (``noderesources``)."""
TAINTED: Final = Filter.of(
    r"node\(s\) had untolerated taint\(?s?\)?\s?(\{[^}]{0,200}\})?.*",
    r"with a taint \1",
    "tolerate the taint, or take it off the nodes",
)
SELECTED: Final = Filter.of(
    r"node\(s\) didn't match Pod's node affinity/selector",
    "outside of the node selector or affinity",
    "compare nodeSelector and affinity with the labels of the nodes",
)
VOLUME: Final = Filter.of(
    r"node\(s\) (?:had volume node affinity conflict|didn't match PersistentVolume's node affinity"
    r"|had no available volume zone)",
    "without the volume",
    "see the PersistentVolumeClaims of its pods: their volumes hold them to other nodes",
)
COUNTED: Final[tuple[Filter, ...]] = (
    *SIZE,
    TAINTED,
    SELECTED,
    Filter.of(r"node\(s\) were unschedulable", "cordoned", "uncordon nodes"),
)
"""Of what gangctl's model of nodes (:mod:`gangctl.fit.floor`) looks at."""
CLAIMS: Final[tuple[Filter, ...]] = (
    Filter.of(
        r"pod has unbound immediate PersistentVolumeClaims.*",
        "a PersistentVolumeClaim is not bound",
        "see why the claim is not bound (kubectl describe pvc): no volume, no provisioner, or no such StorageClass",
    ),
    Filter.of(
        r"persistentvolumeclaim \"(\S{1,253})\" not found.*",
        r'PersistentVolumeClaim "\1" does not exist',
        "create the claim; the scheduler tries again by itself",
    ),
    Filter.of(
        r'PreBind plugin "VolumeBinding": (?:binding volumes: )?',
        "a PersistentVolumeClaim gets no volume: ",
        "see the events of the claim (kubectl describe pvc) and the log of its provisioner; the scheduler tries again",
    ),
)
"""Of volume claims, whatever the nodes (``volumebinding``)."""
DEVICES: Final = Filter.of(
    r'PreBind plugin "DynamicResources": ',
    "its devices are not ready: ",
    "see the status of its ResourceClaims and the log of the driver, which does not make the devices ready; the "
    "scheduler tries again",
)
"""Of devices that are allocated (``dynamicresources``)."""
FILTERS: Final[tuple[Filter, ...]] = (
    *COUNTED,
    Filter.of(
        r"node\(s\) didn't have free ports for the requested pod ports",
        "without a free host port",
        "add nodes, or leave out hostPort and hostNetwork: a node holds one pod for each port, and with hostNetwork "
        "every containerPort is one",
    ),
    Filter.of(
        r"node\(s\) didn't match pod topology spread constraints.*",
        "against topology spread",
        "compare topologySpreadConstraints with the nodes of each domain, or set whenUnsatisfiable: ScheduleAnyway",
    ),
    Filter.of(
        r"node\(s\) didn't (?:match|satisfy) (?:existing )?pods? (?:anti-)?affinity.*",
        "against pod (anti-)affinity",
        "add nodes, or loosen the affinity or anti-affinity of its pods and of those on the nodes",
    ),
    VOLUME,
    Filter.of(
        r"node\(s\) didn't find available persistent volumes to bind",
        "without a volume to bind",
        "see the StorageClasses of its PersistentVolumeClaims: none of their volumes is free there, and none is made",
    ),
    Filter.of(
        r"node\(s\) unavailable due to PersistentVolumeClaim with ReadWriteOncePod.*",
        "without the volume, which another pod uses",
        "only one pod may use a claim of access mode ReadWriteOncePod: use another mode, or a claim for each pod",
    ),
    Filter.of(r"node\(s\) exceed max volume count", "full of volumes", "add nodes, or use fewer volumes"),
    Filter.of(
        r"cannot allocate all claims",
        "without free devices for its claims",
        "compare the ResourceClaims with the ResourceSlices of the nodes; wait for others to free devices",
    ),
    *CLAIMS,
    DEVICES,
    Filter.of(
        r"(?:resourceclaim|device class|deviceclass) .{1,300}(?:not found|does not exist).*",
        "a ResourceClaim or DeviceClass that it names does not exist",
        "create what the message names",
    ),
)
"""Texts of the plugins in ``pkg/scheduler/framework/plugins``; those that name no node come last."""
