"""``gangctl policy``: its verbs, what help costs, and completion."""

from __future__ import annotations

import subprocess
import sys

from gangctl.cli.completion import candidates
from gangctl.cli.policy import VERBS
from tests.cli.run import gangctl
from tests.cli.test_program import HEAVY
from tests.rows import each


def test_help_lists_the_verbs() -> None:
    answer = gangctl("policy", "--help")
    assert (answer.code, answer.err) == (0, "")
    for name, (_, line) in VERBS.items():
        assert f"  {name:<{max(map(len, VERBS))}}  {line}\n" in answer.out


@each("name", VERBS)
def test_help_of_a_verb_begins_with_its_line_and_has_examples(name: str) -> None:
    answer = gangctl("policy", name, "--help")
    assert answer.code == 0
    assert answer.out.splitlines()[2].strip() == VERBS[name][1]
    assert f"  gangctl policy {name} " in answer.out.partition("Examples:")[2]


def test_an_unknown_verb_is_a_usage_error() -> None:
    answer = gangctl("policy", "perhaps")
    assert answer.code == 2
    assert "No such command 'perhaps'" in answer.err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom gangctl.cli.program import program\n"
        "try: program.main(['policy', '--help'])\nexcept SystemExit: pass\n"
        f"print([m for m in {(*HEAVY, 'celpy', 'lark')} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stderr == "[]\n"


def test_offline_verbs_import_no_client_and_no_grammar() -> None:
    verbs = ", ".join(VERBS[name][0] for name in ("test", "eval", "lint", "list"))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {verbs}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert {"aiohttp", "kubernetes_asyncio", "celpy"}.isdisjoint(done.stdout.split())


def test_verbs_flags_and_formats_are_completed() -> None:
    assert candidates(["policy", "l"])[0] == [f"{name}\t{VERBS[name][1]}" for name in ("lint", "list")]
    assert candidates(["policy", "eval", "--op"])[0][0].startswith("--operation\t")
    assert candidates(["policy", "test", "-o", ""])[0] == [
        "table",
        "json",
        "yaml",
        "junit",
        "jsonpath=",
        "custom-columns=",
    ]
    assert candidates(["policy", "eval", "--policy", ""]) == ([], 0)
