"""A result: a table as text, written with the machine and the moment it was measured on."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass
class Table:
    """Rows under headings, and remarks below them."""

    name: str
    headings: list[str]
    rows: list[list[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Append a row."""
        self.rows.append([str(cell) for cell in cells])

    def markdown(self) -> str:
        """The table and its remarks."""
        lines = [self.headings, ["---"] * len(self.headings), *self.rows]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return "\n".join([body, *(f"\n{remark}" for remark in self.remarks)])

    def write(self) -> Path:
        """Write the result file of this benchmark."""
        machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}"
        path = RESULTS / f"{self.name}.md"
        path.write_text(f"# {self.name}\n\n`python -m benchmarks {self.name}` ({machine})\n\n{self.markdown()}\n")
        return path
