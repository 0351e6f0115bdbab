"""A table as text, for whoever wants to see more than the budgets ask for."""

from __future__ import annotations

from dataclasses import dataclass, field


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
