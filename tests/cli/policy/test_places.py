"""Remarks about policies, where they were written."""

from __future__ import annotations

from textwrap import dedent

from gangctl.api.documents import parse_documents
from gangctl.cli.policy.loading import Remark, Severity, in_order, underlined
from tests.rows import each

POLICY = """\
apiVersion: gangctl.dev/v1alpha1
kind: GangPolicy
metadata: {name: p}
spec:
  validations:
  - name: a
    expression: >-
      object.spec.replicatedJobs
        .all(r, r.nmae
        != 'x')
"""
EXPRESSION = "object.spec.replicatedJobs\n  .all(r, r.nmae\n  != 'x')"


def remark(text: str = POLICY, path: str = "spec.validations[0].expression", **fields: object) -> Remark:
    (document,) = parse_documents(text, "p.yaml")
    reported: dict[str, object] = {
        "severity": Severity.ERROR,
        "code": "UnknownField",
        "message": "no such field",
        **fields,
    }
    return Remark(document, path=path, **reported)  # type: ignore[arg-type]  # a test's keywords


def test_an_expression_is_shown_with_a_caret_under_its_words() -> None:
    found = remark(offset=EXPRESSION.index("nmae"), length=4, hint="did you mean name?")
    assert found.lines() == [
        "p.yaml:9:19: error: no such field (UnknownField)",
        "            .all(r, r.nmae",
        "                      ^^^^",
        "    hint: did you mean name?",
    ]
    assert (found.position, found.end) == ((9, 19), (9, 23))


def test_a_mark_over_several_lines_ends_with_the_first() -> None:
    start = EXPRESSION.index("r.nmae")
    found = remark(offset=start, length=len(EXPRESSION) - start)
    assert found.lines()[2] == " " * 20 + "^^^^^^"
    assert found.end == (10, 16)


def test_a_field_is_shown_where_its_key_is() -> None:
    assert remark(path="spec.validations[0].name").lines() == [
        "p.yaml:6:5: error: no such field (UnknownField)",
        "      - name: a",
        "        ^^^^",
    ]


def test_a_remark_has_its_place_as_data() -> None:
    assert remark(offset=0, length=6, policy="p", severity=Severity.WARNING).as_data() == {
        "file": "p.yaml",
        "line": 8,
        "column": 7,
        "endLine": 8,
        "endColumn": 13,
        "severity": "warning",
        "code": "UnknownField",
        "policy": "p",
        "field": "spec.validations[0].expression",
        "message": "no such field",
        "hint": "",
    }


def test_a_remark_with_an_invalid_path_is_shown_at_the_object() -> None:
    assert remark(path="spec.[").position == (1, 1)


@each(
    ("text", "column", "width", "caret"),
    [
        ("abc", 2, 1, " ^"),
        ("日本 x", 4, 1, "     ^"),
        ("日本", 1, 2, "^^^^"),
        ("\tx", 2, 1, " ^"),
        ("\x07x", 2, 1, "    ^"),
        ("ab", 3, 1, "  ^"),
    ],
)
def test_the_caret_is_below_the_words_after_wide_characters(text: str, column: int, width: int, caret: str) -> None:
    assert underlined(text, column, width)[1] == f"    {caret}"


def test_long_lines_are_cut_around_the_caret() -> None:
    text = "a" * 500 + "X" + "b" * 500
    line, caret = underlined(text, 501, 1)
    assert len(line) < 130
    assert line.strip().startswith("...")
    assert line.endswith("...")
    assert line[caret.index("^")] == "X"


def test_remarks_are_in_the_order_of_the_file_and_unique() -> None:
    later, first = remark(offset=EXPRESSION.index("nmae")), remark(path="spec.validations[0].name")
    assert in_order([later, first, remark(offset=EXPRESSION.index("nmae"))]) == [first, later]


def test_the_fixture_has_the_expression() -> None:
    (document,) = parse_documents(dedent(POLICY), "p.yaml")
    assert document.value["spec"]["validations"][0]["expression"] == EXPRESSION
