"""
The harness without pytest: build the binaries ahead of time, or stand up a control plane to look at by hand.

`up` prints its export line on standard output and everything else on standard error, so that a shell can read it. With
a program it prints none: that runs in the cluster, and the cluster ends with it.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.controlplane import cluster
from tests.controlplane.binaries import COMPONENTS, MissingBinary, find_binary, find_manifests
from tests.controlplane.build import ensure_component, say
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.minors import MINORS, NEWEST
from tests.controlplane.nodes import add_nodes
from tests.controlplane.options import ADDONS
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import ComponentFailed
from tests.controlplane.program import cancel_on_signals, run_program


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        if given.command == "build":
            return _build(wanted(given.minor or list(MINORS), node=given.node, full=given.full))
        if given.command == "where":
            return _where()
        if given.command == "cluster":
            return cluster.run(given.nodes, given.program)
        if (given.kueue or given.trainer) and not given.jobset:
            parser.error("--kueue and --trainer need --jobset, for its CRD")
        return _up(given)
    except (MissingBinary, ComponentFailed, TimeoutError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.controlplane", description="A real control plane on loopback."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="build what is missing into the cache (minutes)")
    build.add_argument(
        "--minor",
        action="append",
        choices=list(MINORS),
        help="only this Kubernetes minor; may be repeated (default: all)",
    )
    build.add_argument(
        "--node", action="store_true", help="also what real nodes need: kubelet, containerd, CNI, CoreDNS"
    )
    build.add_argument(
        "--full",
        action="store_true",
        help="also what only the full tier needs: older JobSets, Trainer, LeaderWorkerSet",
    )
    commands.add_parser("where", help="say which binary is found where")
    whole = commands.add_parser("cluster", help="real nodes with gangctl where they can run, and a program in it")
    whole.add_argument(
        "--nodes",
        choices=cluster.KINDS,
        help="real: two that run containers, or an error; simulated: three with 8 GPUs each (default: what can be)",
    )
    whole.add_argument("program", nargs="+", metavar="-- PROGRAM", help="what runs in it, a shell for one")
    up = commands.add_parser("up", help="start a control plane and stay until Ctrl-C or SIGTERM")
    up.add_argument("--kube", default=NEWEST, choices=list(MINORS), help="Kubernetes minor (default: %(default)s)")
    up.add_argument("--jobset", action="store_true", help="with the JobSet controller")
    up.add_argument("--kueue", action="store_true", help="with Kueue; needs --jobset")
    up.add_argument("--lws", action="store_true", help="with LeaderWorkerSet")
    up.add_argument("--trainer", action="store_true", help="with Kubeflow Trainer; needs --jobset")
    kubelets = up.add_mutually_exclusive_group()
    kubelets.add_argument("--kwok", action="store_true", help="with KWOK, which runs pods and finishes them at once")
    kubelets.add_argument("--kubelet", action="store_true", help="with kubelets that run pods until they are deleted")
    up.add_argument("--nodes", type=_count, default=0, metavar="N", help="create N nodes of 4 CPUs (default: 0)")
    up.add_argument(
        "--capacity",
        type=_resources,
        default={},
        metavar="NAME=AMOUNT,...",
        help="what each of these nodes has otherwise: cpu=64,memory=512Gi,nvidia.com/gpu=8",
    )
    up.add_argument("--audit", action="store_true", help="write DIR/audit.log")
    up.add_argument("--dir", type=Path, metavar="DIR", help="keep data and logs here (default: a temporary directory)")
    up.add_argument(
        "program",
        nargs="*",
        metavar="-- PROGRAM",
        help="run this with its KUBECONFIG, a shell for one, and end with it, instead of staying",
    )
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes")
    return int(text)


def _resources(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and amount for name, _, amount in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=AMOUNT,...")
    return {name: amount for name, _, amount in pairs}


def _build(names: Sequence[str]) -> int:
    for name in names:
        for path in ensure_component(name):
            print(path)
    return 0


def wanted(minors: Collection[str], *, node: bool = False, full: bool = False) -> list[str]:
    """The components that `build` makes."""
    left_out = {f"kubernetes-{minor}" for minor in MINORS} - {f"kubernetes-{minor}" for minor in minors}
    return [
        name
        for name, component in COMPONENTS.items()
        if name not in left_out and (node or not component.node) and (full or not component.full)
    ]


def _where() -> int:
    missing = False
    for component in COMPONENTS.values():
        on_request = component.node or component.full
        if on_request and not any(find_binary(component, binary) for binary in component.packages):
            continue
        rows = [(f"{binary} {component.version}", find_binary(component, binary)) for binary in component.packages]
        if component.manifests:
            rows.append((f"{component.name} {component.version} manifests", find_manifests(component)))
        for what, path in rows:
            print(f"{what:<34} {path or 'not there: `build` makes it'}")
            missing = missing or path is None
    return 1 if missing else 0


def _up(given: argparse.Namespace) -> int:
    components = [name for name in ADDONS if getattr(given, name)]
    # Built here and not under the event loop, where Ctrl-C could not end a build.
    for name in ("etcd", f"kubernetes-{given.kube}", *components):
        ensure_component(name)
    return asyncio.run(_serve(given, components))


async def _serve(given: argparse.Namespace, components: Sequence[str]) -> int:
    cancel_on_signals()
    try:
        async with (
            ControlPlane.start(given.kube, components, audit=given.audit, directory=given.dir) as plane,
            Kubelet(plane.api) if given.kubelet else contextlib.nullcontext(),
        ):
            if given.nodes:
                await add_nodes(plane.api, given.nodes, **_capacity(given.capacity))
            say(f"Kubernetes {plane.minor.name}: {', '.join(plane.components)}")
            if given.program:
                say(f"logs are in {plane.directory}; {given.program[0]} runs in it, and it ends with that")
                return await run_program(given.program, plane.kubeconfig)
            print(f"export KUBECONFIG={plane.kubeconfig}", flush=True)
            say(f"logs are in {plane.directory}; Ctrl-C ends it")
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        say("stopped")
    return 0


def _capacity(resources: Mapping[str, str]) -> dict[str, Any]:
    """As add_nodes takes it."""
    own = {name: amount for name, amount in resources.items() if name in {"cpu", "memory"}}
    return {**own, "extended": {name: amount for name, amount in resources.items() if name not in own}}


if __name__ == "__main__":
    sys.exit(main())
