"""Writes the table of policies/README.md from the policies.

python -m tests.policies.table
"""

from collections.abc import Iterable
from typing import Final

from gangctl.policy.variables import COMPUTED
from tests.policies.pack import NOTES, PACK, Shipped, shipped

README: Final = PACK / "README.md"
_SEVERITIES: Final = ("high", "medium", "low")
CATEGORIES: Final = ("Gangs", "Kueue", "Cost", "Safety")
_HEAD: Final = "| policy | requirement | category | severity | reads | parameters |\n|---|---|---|---|---|---|\n"


def table(policies: Iterable[Shipped]) -> str:
    """One line for each policy, by category and severity."""
    return _HEAD + "".join(map(_line, sorted(policies, key=_order)))


def _order(policy: Shipped) -> tuple[int, int, str]:
    notes = policy.annotations
    category, severity = notes[f"{NOTES}category"], notes[f"{NOTES}severity"]
    return CATEGORIES.index(category), _SEVERITIES.index(severity), policy.name


def _line(policy: Shipped) -> str:
    notes = policy.annotations
    cells = [
        f"[{policy.name}]({policy.name}/README.md)",
        notes[f"{NOTES}title"],
        notes[f"{NOTES}category"],
        notes[f"{NOTES}severity"],
        "native variables" if policy.native else ", ".join(f"`{name}`" for name in COMPUTED if policy.reads(name)),
        _parameters(policy),
    ]
    return f"| {' | '.join(cells)} |\n"


def _parameters(policy: Shipped) -> str:
    if "paramKind" in policy.spec:
        return f"{policy.spec['paramKind']['kind']}, a table of namespaces"
    return "ConfigMap, optional" if policy.has_params_component else ""


def replace_table(text: str) -> str:
    """The README with the table as it should be."""
    before, _, rest = text.partition(_HEAD)
    after = rest[rest.index("\n\n") + 1 :] if rest else ""
    return before + table(shipped()) + after


if __name__ == "__main__":
    README.write_text(replace_table(README.read_text()))
