"""The shipped policies and the examples: each warning that a user of both gets has its reason in examples/README.md."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.cli.run import fine
from tests.docpages import ROOT

EXAMPLES = {path.name[:2]: path for path in sorted((ROOT / "examples").glob("0*.yaml"))}
ROW = re.compile(r"^\| ([a-z, -]+) \| ([0-9, ]+|all) \| .+ \|$", flags=re.MULTILINE)


def documented() -> dict[str, set[str]]:
    """Policies by name, and the numbers of the examples that they warn of, by the page."""
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    return {
        policy: {*EXAMPLES} if numbers == "all" else {*numbers.split(", ")}
        for policies, numbers in ROW.findall(text)
        for policy in policies.split(", ")
    }


def test_every_warning_of_an_example_has_its_reason_on_the_page() -> None:
    warned: dict[str, set[str]] = defaultdict(set)
    for number, path in EXAMPLES.items():
        answer = fine("policy", "eval", "--policy", str(ROOT / "policies"), "-f", str(path), "-o", "json").json
        for policy in answer["policies"]:
            if any(rule["result"] == "fail" for rule in policy["rules"]):
                warned[policy["policy"]].add(number)
    assert len(EXAMPLES) == 8
    assert warned == documented()
