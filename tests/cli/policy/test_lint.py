"""``gangctl policy lint``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.policy.policies import FEW, QUEUED, Object, binding, exception, files, native, policy, rule
from tests.cli.run import Answer, gangctl
from tests.rows import each


def lint(directory: Path, *objects: Object, strict: bool = False) -> Answer:
    path = files(directory, policy=list(objects))["policy"]
    return gangctl("policy", "lint", path, *(["--strict"] if strict else []))


def findings(directory: Path, *objects: Object) -> list[Any]:
    path = files(directory, policy=list(objects))["policy"]
    found: list[Any] = gangctl("policy", "lint", path, "-o", "json").json["findings"]
    return found


def codes(directory: Path, *objects: Object) -> list[tuple[str, str, str]]:
    return [(each["code"], each["severity"], each["field"]) for each in findings(directory, *objects)]


def test_a_policy_without_mistakes_passes(tmp_path: Path) -> None:
    answer = lint(tmp_path, policy("p", FEW, QUEUED), strict=True)
    assert (answer.code, answer.out, answer.err) == (0, "1 object checked: no mistakes found\n", "")


STYLES = {
    "plain": "object.metadata.nmae(1) == 'a'",
    "single quotes": "'object.metadata.nmae(1) == ''a'''",
    "double quotes": "\"object.\\u006detadata.nmae(1) == 'a'\"",
    "literal": "|\n      has(object.metadata) &&\n        object.metadata.nmae(1) == 'a'",
    "folded": ">-\n      has(object.metadata) &&\n\n      object.metadata.nmae(1) == 'a'",
    "over lines": "has(object.metadata) &&\n      object.metadata.nmae(1) == 'a'",
}


@each("written", STYLES.values(), ids=list(STYLES))
def test_the_caret_is_under_the_mistake_in_every_yaml_style(tmp_path: Path, written: str) -> None:
    text = (
        "apiVersion: gangctl.dev/v1alpha1\nkind: GangPolicy\nmetadata:\n  name: p\nspec:\n  validations:\n"
        f"  - name: r\n    message: m\n    expression: {written}\n"
    )
    path = tmp_path / "p.yaml"
    path.write_text(text)
    answer = gangctl("policy", "lint", str(path))
    assert answer.code == 2
    place, source, caret = answer.out.splitlines()[:3]
    start = caret.index("^")
    assert source[start:].startswith("nmae")
    assert caret.strip() == "^" * len("nmae")
    _, number, column, *_ = place.split(":")
    assert text.splitlines()[int(number) - 1] == source[4:]
    assert text.splitlines()[int(number) - 1][int(column) - 1 :].startswith("nmae")


class TestRefused:
    def test_all_errors_are_reported_at_once(self, tmp_path: Path) -> None:
        bad = policy("p", rule("object.a +"), rule("foo(1)", name="s"), rule("1", name="t"))
        answer = lint(tmp_path, bad, policy("q", QUEUED))
        assert answer.code == 2
        assert answer.err == "error: 3 errors in 1 policy\n"
        assert answer.out.splitlines()[-1] == "2 objects checked: 3 errors"
        assert [each[0] for each in codes(tmp_path, bad)] == ["Syntax", "Undeclared", "Type"]

    def test_invalid_fields_are_reported_too(self, tmp_path: Path) -> None:
        assert codes(tmp_path, policy("p", {**FEW, "colour": "red"}, failurePolicy="Perhaps")) == [
            ("FieldValueNotSupported", "error", "spec.failurePolicy"),
            ("FieldValueForbidden", "error", "spec.validations[0].colour"),
        ]

    def test_an_error_in_a_binding_is_reported_at_the_binding(self, tmp_path: Path) -> None:
        wrong = binding("b", "n", "Deny", "Warn")
        (found,) = findings(tmp_path, native("n", QUEUED), wrong)
        assert found["field"] == "spec.validationActions"
        text = Path(found["file"]).read_text().splitlines()
        assert text[found["line"] - 1].strip() == "validationActions:"
        assert found["policy"] == "n/b"


LOOPS = "object.spec.replicatedJobs.all(a, object.spec.replicatedJobs.all(b, object.spec.replicatedJobs.all(c, {}"
COSTLY = LOOPS.format("a.name + b.name + c.name + a.name + b.name + c.name + a.name != b.name + c.name")


class TestMistakes:
    @each(
        ("mistaken", "code", "field"),
        [
            (policy("p", {"name": "r", "expression": "has(object.spec)"}), "MissingMessage", "spec.validations[0]"),
            (policy("p", {"expression": "has(object.spec)", "message": "m"}), "UnnamedRule", "spec.validations[0]"),
            (policy("p", rule("true")), "ConstantRule", "spec.validations[0].expression"),
            (policy("p", rule("!true")), "ConstantRule", "spec.validations[0].expression"),
            (policy("p", rule("has(object.spec) || true")), "Unreachable", "spec.validations[0].expression"),
            (policy("p", rule("false && has(object.spec)")), "Unreachable", "spec.validations[0].expression"),
            (
                policy("p", rule("false ? has(object.spec) : has(object.spec)")),
                "Unreachable",
                "spec.validations[0].expression",
            ),
            (policy("p", FEW, {**FEW, "name": "again"}), "DuplicateRule", "spec.validations[1].expression"),
            (
                policy("p", FEW, matchConditions=[{"name": "c", "expression": "false"}]),
                "ConstantCondition",
                "spec.matchConditions[0].expression",
            ),
            (
                policy(
                    "p",
                    FEW,
                    matchConditions=[
                        {"name": "c", "expression": "has(object.spec)"},
                        {"name": "d", "expression": "!has(object.spec)"},
                    ],
                ),
                "ConstantCondition",
                "spec.matchConditions[0].expression",
            ),
            (
                policy("p", FEW, variables=[{"name": "v", "expression": "1"}]),
                "UnusedVariable",
                "spec.variables[0].name",
            ),
            (
                policy(
                    "p",
                    FEW,
                    paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
                    paramRef={"name": "x", "parameterNotFoundAction": "Allow"},
                ),
                "UnusedParams",
                "spec.paramKind",
            ),
            (
                policy("p", rule("object.metadata.name.matches(object.spec.managedBy)")),
                "ComputedPattern",
                "spec.validations[0].expression",
            ),
            (
                native("n", QUEUED) | {"apiVersion": "admissionregistration.k8s.io/v1beta1"},
                "Deprecated",
                "apiVersion",
            ),
            (binding("b", "elsewhere") | {}, "UnknownPolicy", "spec.policyName"),
        ],
    )
    def test_mistakes_are_warnings_that_fail_with_strict(
        self, tmp_path: Path, mistaken: Object, code: str, field: str
    ) -> None:
        objects = [mistaken] if mistaken["kind"] != "ValidatingAdmissionPolicyBinding" else [mistaken, policy("q", FEW)]
        assert codes(tmp_path, *objects) == [(code, "warning", field)]
        assert lint(tmp_path, *objects).code == 0
        assert lint(tmp_path, *objects, strict=True).code == 1

    def test_variables_that_only_unused_ones_use(self, tmp_path: Path) -> None:
        variables = [{"name": "a", "expression": "1"}, {"name": "b", "expression": "variables.a"}]
        found = findings(tmp_path, policy("p", FEW, variables=variables))
        assert [each["message"] for each in found] == ["variable a is never used", "variable b is never used"]

    def test_variables_that_only_messages_use(self, tmp_path: Path) -> None:
        variables = [{"name": "a", "expression": "'x'"}]
        printed = {"name": "r", "expression": "has(object.spec)", "messageExpression": "variables.a"}
        assert codes(tmp_path, policy("p", printed, variables=variables)) == []

    @pytest.mark.parametrize(("operation", "name"), [("CREATE", "oldObject"), ("DELETE", "object")])
    def test_names_that_are_always_null(self, tmp_path: Path, operation: str, name: str) -> None:
        resources = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": ["jobsets"]}
        constraints = {"resourceRules": [{**resources, "operations": [operation]}]}
        found = findings(tmp_path, policy("p", rule(f"{name}.spec.suspend == true"), matchConstraints=constraints))
        assert [(each["code"], each["message"].split()[0]) for each in found] == [("AlwaysNull", name)]

    def test_an_expression_that_may_exceed_the_budget_is_reported(self, tmp_path: Path) -> None:
        found = findings(tmp_path, policy("p", rule(COSTLY + ")))")))
        assert {each["code"] for each in found} == {"Costly"}
        assert "where a list is longer than" in found[-1]["message"]

    def test_mistakes_in_exceptions_are_reported(self, tmp_path: Path) -> None:
        objects = [policy("p", FEW), exception("old", "p", expires="2020-01-01T00:00:00Z"), exception("e", "p", "none")]
        assert codes(tmp_path, *objects) == [
            ("Expired", "warning", "spec.expiresAt"),
            ("UnknownRule", "error", "spec.policies[0].rules[0]"),
        ]
        assert lint(tmp_path, *objects).code == 1


def test_unknown_fields_of_jobsets_are_reported(tmp_path: Path) -> None:
    found = findings(tmp_path, policy("p", rule("object.spec.replicatedJobs.all(r, r.replica > 0)")))
    (unknown,) = found
    assert (unknown["code"], unknown["severity"]) == ("UnknownField", "error")
    assert "'replica'" in unknown["message"]
    assert lint(tmp_path, policy("p", rule("object.spec.replicatedJobs.all(r, r.replica > 0)"))).code == 1
    (mismatch,) = findings(tmp_path, policy("p", rule("object.metadata.name == 1")))
    assert (mismatch["code"], mismatch["severity"]) == ("TypeMismatch", "error")


def test_findings_are_printed_as_json(tmp_path: Path) -> None:
    path = files(tmp_path, policy=[policy("p", rule("true"))])["policy"]
    data = gangctl("policy", "lint", path, "-o", "json").json
    assert {key: data[key] for key in ("kind", "checked", "errors", "warnings")} == {
        "kind": "PolicyLintReport",
        "checked": 1,
        "errors": 0,
        "warnings": 1,
    }
    (found,) = data["findings"]
    assert (found["line"], found["column"], found["endColumn"]) == (8, 18, 22)
    assert gangctl("policy", "lint", path, "-o", "yaml").documents == [data]


def test_bad_input_is_exit_code_2(tmp_path: Path) -> None:
    answer = gangctl("policy", "lint", str(tmp_path))
    assert (answer.code, answer.out) == (2, "")
    path = files(tmp_path, other=[{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}])["other"]
    answer = gangctl("policy", "lint", path)
    assert answer.code == 2
    assert "no policy in the input: found 1 Service" in answer.err
