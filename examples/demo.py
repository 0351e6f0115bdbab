"""``make demo``: four JobSets that strand each other, and then, with gangctl, take turns.

On the real control plane (etcd, Kubernetes, JobSet as processes on this machine), which is
built with Go the first time: 10 minutes or more. Without Go, what gangctl makes of the examples.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from pathlib import Path

from tests.controlplane import MissingBinary
from tests.controlplane.plane import ControlPlane
from tests.live.cluster import Cluster
from tests.live.contention import CPUS, JOBSETS, PODS, Result, Sight, contend
from tests.live.gangctl import Gangctl, create_namespaces

EXAMPLES = Path(__file__).parent


def show(sight: Sight, seconds: float) -> None:
    """One line for each change: bound pods of every JobSet, or that it has finished."""
    cells = [
        f"{name}: {'finished' if name in sight.finished else f'{bound}/{PODS} pods':<10}"
        for name, bound in sight.bound.items()
    ]
    print(f"  {seconds:5.1f} s   " + "   ".join(cells), flush=True)


def verdict(result: Result) -> str:
    """How an act ended."""
    return f"  {result.finished} of {JOBSETS} JobSets finished, {result.stranded} pods stranded."


async def contention(minor: str) -> bool:
    """Both acts on one control plane; whether all is well with gangs."""
    print(f"Starting Kubernetes {minor} and JobSet ...", flush=True)
    async with ControlPlane.start(minor, ("jobset",)) as plane:
        await create_namespaces(plane, ["without", "with"])
        print(f"\n{JOBSETS} JobSets of {PODS} pods on {CPUS} CPUs, without gangs:", flush=True)
        print(verdict(await contend(Cluster(plane, "without"), gangs=False, tell=show)))
        async with Gangctl(plane):
            print('\nThe same with gangctl and the annotation gangctl.dev/gang-mode: "Gang":', flush=True)
            result = await contend(Cluster(plane, "with"), gangs=True, tell=show)
        print(verdict(result))
        return result.finished == JOBSETS and result.stranded == 0


def plans() -> bool:
    """``gangctl plan`` on the examples."""
    command = [sys.executable, "-m", "gangctl", "plan", "-f", str(EXAMPLES)]
    return subprocess.run(command, check=False).returncode == 0


def main() -> None:
    """Run the scenario, or say why not and show the plans."""
    parser = argparse.ArgumentParser(prog="make demo", description="Contention without gangs, and with them.")
    parser.add_argument("--kube", default="1.37", choices=["1.37", "1.36", "1.35"], help="Kubernetes minor")
    minor = parser.parse_args().kube
    try:
        succeeded = asyncio.run(contention(minor))
    except MissingBinary as missing:
        print(f"No control plane here: {missing}\nWhat gangctl makes of the examples instead:\n", flush=True)
        succeeded = plans()
    sys.exit(0 if succeeded else 1)


if __name__ == "__main__":
    main()
