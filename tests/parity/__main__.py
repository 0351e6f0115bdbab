"""`python -m tests.parity record` asks a kube-apiserver and writes what it says; `show` prints that of expressions."""

import asyncio
import json
import sys
from dataclasses import astuple

from tests.controlplane.api import path_of
from tests.controlplane.plane import ControlPlane
from tests.parity import public
from tests.parity.corpus import cases
from tests.parity.native import ask
from tests.parity.recorded import FILE, MINOR, recorded


async def record() -> None:
    async with ControlPlane.start(MINOR) as plane:
        for name in ("parity", "public"):
            await plane.api.create(path_of("v1", "namespaces"), {"metadata": {"name": name}})
        outcomes = await ask(plane.api, "parity", [expression for _, expression in cases()])
        verdicts = await public.ask(plane.api, "public")
    lines = [f"  {json.dumps(expression)}: {json.dumps(astuple(outcomes[expression]))}" for _, expression in cases()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    lines = [f"  {json.dumps(name)}: {json.dumps(answers)}" for name, answers in verdicts.items()]
    public.RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def show() -> None:
    known = recorded()
    for topic, expression in cases():
        outcome = known[expression]
        print(f"{topic:20} {outcome.verdict:20} {expression}   {outcome.detail}")


if __name__ == "__main__":
    if sys.argv[1:] == ["record"]:
        asyncio.run(record())
    elif sys.argv[1:] == ["show"]:
        show()
    else:
        sys.exit(__doc__)
