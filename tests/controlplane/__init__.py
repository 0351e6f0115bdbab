"""
A real control plane on loopback: the last ground gangctl is tested on.

Schedulers, garbage collection, admission order and field pruning decide whether a gang holds, and only the released
binaries decide them. This package builds those binaries from pinned Go modules, starts them as plain processes, and
plays the kubelet. Tests, benchmarks and a person with a terminal use the same `ControlPlane`.
"""

from tests.controlplane.api import ApiClient, ApiFailure
from tests.controlplane.binaries import MissingBinary
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for

__all__ = ["ApiClient", "ApiFailure", "ControlPlane", "Kubelet", "MissingBinary", "NotYet", "add_nodes", "wait_for"]
