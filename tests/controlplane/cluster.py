"""
`make cluster`: a shell in real Kubernetes.

Where a node can run, there are two, with gangctl installed from its image as docs/install.md does it. Elsewhere nodes
are simulated: pods run until they are deleted, and gangctl is the user's to start.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.controlplane.binaries import COMPONENTS
from tests.controlplane.build import ensure_binary, ensure_component, say
from tests.controlplane.images import gangctl_image, pause_image, python_image
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.machine import NoMachine, require_machine
from tests.controlplane.minors import NEWEST
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.program import cancel_on_signals, run_program

KINDS = ("real", "simulated")
_ROOT = Path(__file__).parents[2]
COMMANDS = (
    "kubectl apply -f examples/08-allreduce.yaml       # four workers train as one gang",
    "gangctl get                                       # which gangs there are, and how they do",
    "kubectl logs -l jobset.sigs.k8s.io/jobset-name=allreduce -f --tail=-1",
)
"""What it says to try."""


def run(kind: str | None, program: Sequence[str]) -> int:
    """Start it, run the program in it, and end it; the program's exit code. NoMachine if it must be real and cannot."""
    images: list[Path] = []
    if kind != "simulated":
        try:
            require_machine()
            images = [pause_image(), python_image(), gangctl_image()]
        except NoMachine as missing:
            if kind == "real":
                raise
            say(f"the nodes are simulated: {missing}")
    for name, component in COMPONENTS.items():
        if name in {"etcd", f"kubernetes-{NEWEST}", "jobset"} or (images and component.node):
            ensure_component(name)
    return asyncio.run((_real if images else _simulated)(images, program))


async def _real(images: Sequence[Path], program: Sequence[str]) -> int:
    cancel_on_signals()
    async with ControlPlane.start(NEWEST, nodes=2, images=images) as plane:
        say("installing gangctl: kubectl apply -k manifests/base")
        with tempfile.TemporaryDirectory() as directory:
            kubectl = Path(directory) / "kubectl"
            kubectl.symlink_to(ensure_binary("kubectl", NEWEST))
            for arguments in (
                ("apply", "--kustomize", str(_ROOT / "manifests" / "base")),
                ("--namespace=gangctl-system", "rollout", "status", "deployment/gangctl"),
            ):
                if code := await run_program([str(kubectl), *arguments], plane.kubeconfig):
                    return code
            say("gangctl is installed, from the image of this directory. Try:")
            for line in COMMANDS:
                say(f"    {line}")
            say("The program is in the network of the nodes, which has no way out.")
            return await run_program(program, plane.kubeconfig, [_ROOT / ".venv" / "bin", Path(directory)])


async def _simulated(_images: Sequence[Path], program: Sequence[str]) -> int:
    cancel_on_signals()
    async with ControlPlane.start(NEWEST) as plane, Kubelet(plane.api):
        await add_nodes(plane.api, 3, cpu="64", memory="512Gi", extended={"nvidia.com/gpu": "8"})
        say(f"Kubernetes {NEWEST} with JobSet, and 3 simulated nodes with 8 GPUs each. Their pods run no containers:")
        say("start gangctl as in the quick start (gangctl controller --webhook-url ...), not with gangctl install.")
        say(f"Logs are in {plane.directory}. The cluster, and all that is in it, ends with {program[0]}.")
        return await run_program(program, plane.kubeconfig)
