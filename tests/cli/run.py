"""Running gangctl: in this process with click's runner, or as the process that people start."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import yaml
from click.testing import CliRunner

from gangctl.cli.program import program
from tests.controlplane.wait import HUNG_SECONDS

BIN = Path(sys.executable).parent
PYTHON = re.compile(
    r"Value error,|Traceback|<[\w.]+ object at 0x|<class '|Errno|\bNoneType\b|errors\.pydantic\.dev|\w+Error\("
)
"""What Python and pydantic write and operators do not read."""


@dataclass(frozen=True)
class Answer:
    """What came of it."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout as the one JSON document it has to be; AssertionError with stderr where it is none."""
        try:
            return json.loads(self.out)
        except json.JSONDecodeError as error:
            raise AssertionError(f"exit code {self.code}, no JSON but: {self.out}{self.err}") from error

    @property
    def documents(self) -> list[Any]:
        """Stdout as a stream of YAML documents."""
        return list(yaml.safe_load_all(self.out))


def gangctl(*args: str, stdin: str | bytes | None = None, name: str = "gangctl") -> Answer:
    """Run in this process."""
    result = CliRunner().invoke(program, args, input=stdin, prog_name=name)
    assert (found := PYTHON.search(result.stderr)) is None, (found, result.stderr[-2000:])
    return Answer(result.exit_code, result.stdout, result.stderr)


async def ask(*args: str) -> Answer:
    """Run in a thread of this process, while the test serves what it asks for."""
    try:
        return await asyncio.to_thread(gangctl, *args)
    finally:
        # Its log goes to a stderr that is closed now.
        structlog.reset_defaults()


def fine(*args: str, stdin: str | bytes | None = None) -> Answer:
    """Run, and expect success."""
    answer = gangctl(*args, stdin=stdin)
    assert answer.code == 0, answer.err
    return answer


def process(
    *args: str, stdin: bytes = b"", program_name: str = "gangctl", seconds: float = HUNG_SECONDS, **environment: str
) -> Answer:
    """Run the installed program in a process of its own, in English and without a terminal; after so long it hangs."""
    done = subprocess.run(
        [BIN / program_name, *args],
        input=stdin,
        capture_output=True,
        timeout=seconds,
        check=False,
        env={"PATH": str(BIN), "LANG": "C.UTF-8", "HOME": "/nonexistent", **environment},
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
