"""What the filters of the scheduler refuse with, in short words, and what helps.

The texts are those of ``pkg/scheduler/framework`` of Kubernetes 1.35 to 1.37.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


# Compared by identity: there is one of each, and hashing a pattern takes long.
@dataclass(frozen=True, slots=True, eq=False)
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
_LOST: Final = "restore the volume, or delete the claim and create it anew: its data is gone with the volume"
CLAIMS: Final[tuple[Filter, ...]] = (
    Filter.of(
        r"pod has unbound immediate PersistentVolumeClaims.*|PersistentVolume(?:Claim)? had no (?:pv name|name).*"
        r"|VolumeBindingMode not set for StorageClass.*",
        "a PersistentVolumeClaim is not bound",
        "see why the claim is not bound (kubectl describe pvc): no volume, no provisioner, or no such StorageClass",
    ),
    Filter.of(
        r"(?:looking up PVC \S{1,400}: )?persistentvolumeclaim \"(\S{1,253})\" not found.*",
        r'PersistentVolumeClaim "\1" does not exist',
        "create the claim; the scheduler tries again by itself",
    ),
    Filter.of(
        r"persistentvolumeclaim \"(\S{1,253})\" bound to non-existent persistentvolume \"(\S{1,253})\".*",
        r'PersistentVolumeClaim "\1" has lost its volume "\2"',
        _LOST,
    ),
    Filter.of(
        r"node\(s\) unavailable due to one or more pvc\(s\) bound to non-existent pv\(s\)",
        "with a PersistentVolumeClaim that has lost its volume",
        _LOST,
    ),
    Filter.of(r"persistentvolume \"(\S{1,253})\" not found.*", r'PersistentVolume "\1" does not exist', _LOST),
    Filter.of(
        r"persistentvolumeclaim \"(\S{1,253})\" is being deleted.*",
        r'PersistentVolumeClaim "\1" is being deleted',
        "once the last pod that uses the claim has ended, and the claim is gone, create it anew",
    ),
    Filter.of(
        r"waiting for ephemeral volume controller to create the persistentvolumeclaim \"(\S{1,253})\".*",
        r'PersistentVolumeClaim "\1" is not made yet',
        "see in the events of the pod whether the claim is refused, as by a ResourceQuota",
    ),
    Filter.of(
        r"PVC \S{1,253}/(\S{1,253}) was not created for pod .*",
        r'PersistentVolumeClaim "\1" has the name of that of an ephemeral volume',
        "delete the claim, or give the volume another name in a new JobSet",
    ),
    Filter.of(
        r"storageclass\.storage\.k8s\.io \"(\S{1,253})\" not found.*",
        r'StorageClass "\1" does not exist',
        "create the StorageClass, or the claim anew with another one",
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
        r"node\(s\) did not have enough free storage",
        "without enough free storage",
        "free storage there, or ask for less in the claims: the CSIStorageCapacity objects have what is left",
    ),
    Filter.of(
        r"node\(s\) had no available disk",
        "where another pod has its disk",
        "use a volume for each pod, or mount it read-only in all: two pods of a node cannot write to such a disk",
    ),
    Filter.of(
        r"(\S{1,253}) CSI driver is not installed on the node",
        r"without CSI driver \1",
        "install the driver on the nodes, or see why its pods do not run there",
    ),
    Filter.of(
        r"node\(s\) didn't match scheduler-enforced node affinity",
        "outside of the affinity that the scheduler adds",
        "label the nodes, or change addedAffinity in the scheduler's configuration",
    ),
    Filter.of(
        r"pod affinity terms conflict.*|node\(s\) didn't satisfy plugin(?:\(s\))? .*",
        "not among the nodes that its affinity names",
        "correct the node affinity of its pods: it names single nodes",
    ),
    Filter.of(
        r"node\(s\) didn't match Pod's required features",
        "without a feature that its pods need",
        "use nodes of a newer Kubernetes, or enable its feature gate there: see status.declaredFeatures of the nodes",
    ),
    Filter.of(
        r"resourceclaim not available on the node",
        "without the devices of its claim",
        "the devices of an allocated ResourceClaim are on other nodes: free those nodes, or create the claim anew",
    ),
    Filter.of(
        r"resourceclaim in use.*",
        "its ResourceClaim is in use by as many pods as it may be",
        "wait until others end, or use a claim for each pod (resourceClaimTemplateName)",
    ),
    Filter.of(
        r"node allocatable resource claim (\S{1,253}) .*",
        r"cannot share ResourceClaim \1 with other pods",
        "use a claim for each pod (resourceClaimTemplateName)",
    ),
    Filter.of(
        r"resource claim (\S{1,400}) is in the process of being allocated.*",
        r"ResourceClaim \1 is being allocated",
        "wait: the scheduler tries again",
    ),
    Filter.of(
        r"cannot schedule extended resource claim",
        "with a ResourceClaim of the attempt before",
        "wait: the scheduler deletes the claim, and tries again",
    ),
    Filter.of(
        r"resourceclaim \"(\S{1,253})\" is being deleted.*",
        r'ResourceClaim "\1" is being deleted',
        "once the last pod that uses the claim has ended, and the claim is gone, create it anew",
    ),
    Filter.of(
        r"pod \"\S{1,400}\": ResourceClaim not created yet.*",
        "a ResourceClaim is not made yet",
        "see in the events of the pod why the claim is not made: no such ResourceClaimTemplate, or a quota",
    ),
    Filter.of(
        r"ResourceClaim (\S{1,400}) was not created for Pod .*",
        r"ResourceClaim \1 is that of another pod",
        "delete the claim: its name is that of a claim that is made for a pod",
    ),
    Filter.of(
        r"resource claim (\S{1,400}), request \S{1,253}: (?:has subrequests|unknown request type).*",
        r"the scheduler does not know what ResourceClaim \1 requests",
        "enable the feature gate DRAPrioritizedList in the scheduler, or request devices in another way",
    ),
    Filter.of(
        r"resource claim (\S{1,400}) allocation requires (\S{1,100}) feature on the node",
        r"without feature \2, which the devices of a claim need",
        "use nodes of a newer Kubernetes, or enable the feature gate there",
    ),
    Filter.of(
        r"invalid resource pools were encountered",
        "with invalid ResourceSlices",
        "see the log of the driver that publishes the ResourceSlices of these nodes",
    ),
    Filter.of(
        r"cannot fit resource",
        "without a resource that its pods ask for",
        "see which nodes have the resource: no device plugin and no DeviceClass offers it there",
    ),
    Filter.of(
        r"pod level (request|limit) for (\S{1,253}) is insufficient to cover .*",
        r"with too small a \1 of \2 for the whole pod and its claims",
        "raise spec.resources of the pods in a new JobSet",
    ),
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
"""Texts of the plugins in ``pkg/scheduler/framework/plugins``: a test has each of 1.37."""
