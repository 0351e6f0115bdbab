"""``gangctl policy lint``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.policy.policies import FEW, QUEUED, Object, binding, exception, files, native, policy, rule
from tests.cli.run import Answer, gangctl
from tests.policies.pack import shipped
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


def about(*operations: str, resources: str = "jobsets") -> Object:
    rules = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": [resources]}
    return {"matchConstraints": {"resourceRules": [{**rules, "operations": list(operations)}]}}


V: Final = {"name": "v", "expression": "gang.totalPods <= 4"}


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
            (policy("p", rule("!false")), "ConstantRule", "spec.validations[0].expression"),
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
                    paramRef={"name": "x", "namespace": "n", "parameterNotFoundAction": "Allow"},
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
                native("n", QUEUED, **about("CREATE")) | {"apiVersion": "admissionregistration.k8s.io/v1beta1"},
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

    @pytest.mark.parametrize(
        ("constraints", "name"), [(about("CREATE"), "oldObject"), ({}, "oldObject"), (about("DELETE"), "object")]
    )
    def test_names_that_are_always_null(self, tmp_path: Path, constraints: Object, name: str) -> None:
        found = findings(tmp_path, policy("p", rule(f"{name}.spec.suspend == true"), **constraints))
        assert [(each["code"], each["message"].split()[0]) for each in found] == [("AlwaysNull", name)]

    def test_an_expression_that_may_exceed_the_budget_is_reported(self, tmp_path: Path) -> None:
        found = findings(tmp_path, policy("p", rule(COSTLY + ")))")))
        assert {each["code"] for each in found} == {"Costly"}
        assert "where a list is longer than" in found[-1]["message"]

    def test_mistakes_in_exceptions_are_reported(self, tmp_path: Path) -> None:
        old = exception("old", "p", expires="2020-01-01T00:00:00Z", namespaces=["a"])
        soon = (datetime.now(UTC) + timedelta(days=30)).isoformat()
        objects = [policy("p", FEW), old, exception("e", "p", "none", expires=soon, namespaces=["a"])]
        assert codes(tmp_path, *objects) == [
            ("Expired", "warning", "spec.expiresAt"),
            ("UnknownRule", "error", "spec.policies[0].rules[0]"),
        ]
        assert lint(tmp_path, *objects).code == 1


SPEC_STAYS: Final = rule("request.operation == 'CREATE' || object.spec == oldObject.spec")
CREATED: Final = [{"name": "created", "expression": "request.operation == 'CREATE'"}]
COMPARED: Final = [{"name": "new", "expression": "oldObject == null || object.spec != oldObject.spec"}]
SIZES: Final = ".spec.replicatedJobs.map(r, r.replicas)"
RESIZED: Final = [{"name": "x", "expression": f"oldObject == null || object{SIZES} != oldObject{SIZES}"}]
NATIVE: Final = native("n", QUEUED, **about("*", resources="jobsets/*"))
TEAM: Final = rule("!has(oldObject.metadata.labels.team) || has(object.metadata.labels.team)")
HERE: Final = [{"name": "here", "expression": "request.namespace != 'kube-system'"}]
USERS: Final = rule("!request.userInfo.username.startsWith('system:serviceaccount:') || has(object.metadata.name)")
NO_ACCOUNTS: Final = rule("!request.userInfo.username.startsWith('system:serviceaccount:')")
ALL = ("Kueue's start", "Kueue's eviction", "finalizers")


class TestWritesOfOthers:
    @each(
        ("case", "written", "refused"),
        [
            ("what is not compared", policy("p", FEW, **about("CREATE", "UPDATE")), ALL),
            ("in any operation", policy("p", QUEUED, **about("*")), ALL),
            ("through a variable", policy("p", rule("variables.v"), variables=[V], **about("UPDATE")), ALL),
            ("always", policy("p", rule("false"), **about("UPDATE")), ALL),
            ("a condition without a comparison", policy("p", FEW, matchConditions=HERE, **about("UPDATE")), ALL),
            ("natively", native("n", QUEUED), (*ALL, "the garbage collector's removal")),
            ("natively, and the status", NATIVE, (*ALL, "JobSet's status")),
            (
                "natively, and all of it",
                native("n", QUEUED, **about("*", resources="*")),
                (*ALL, "the garbage collector's removal"),
            ),
            ("resized", policy("p", FEW, matchConditions=RESIZED, **about("*")), None),
            ("a spec that stays", policy("p", SPEC_STAYS, **about("UPDATE")), ALL[:2]),
            ("by who asks", policy("p", NO_ACCOUNTS, **about("UPDATE")), ALL),
            ("at CREATE", policy("p", FEW, QUEUED, **about("CREATE")), None),
            ("by default", policy("p", FEW, QUEUED), None),
            ("only at CREATE", policy("p", FEW, matchConditions=CREATED, **about("CREATE", "UPDATE")), None),
            ("only what is new", policy("p", FEW, matchConditions=COMPARED, **about("UPDATE")), ALL[:2]),
            ("a label that stays", policy("p", TEAM, **about("UPDATE")), None),
            ("not by who asks", policy("p", USERS, **about("UPDATE")), None),
            ("warned of", policy("p", FEW, validationActions=["Warn"], **about("UPDATE")), None),
            ("of other objects", native("n", QUEUED, **about("UPDATE", resources="pods")), None),
        ],
    )
    def test_rules_that_would_refuse_them_are_named(
        self, tmp_path: Path, case: str, written: Object, refused: tuple[str, ...] | None
    ) -> None:
        found = [each for each in findings(tmp_path, written) if each["code"] == "RefusesUpdates"]
        assert len(found) == (refused is not None), case
        for remark in found:
            assert remark["severity"] == "warning"
            writes = remark["message"].partition("there before it: ")[2].split(", ")
            assert all(words in remark["message"] for words in refused or ()), remark["message"]
            assert all(words not in remark["message"] for words in ALL if words not in (refused or ())), writes

    def test_no_shipped_policy_does_when_it_denies(self, tmp_path: Path) -> None:
        denying = [
            {**each.document, "spec": {**each.spec, "validationActions": ["Deny"], "failurePolicy": "Fail"}}
            for each in shipped()
        ]
        assert [each["code"] for each in findings(tmp_path, *denying)] == []


class TestWhatTenantsWrite:
    @each(
        ("reference", "codes_"),
        [
            ({"name": "x"}, ["TenantParams"]),
            ({"selector": {"matchLabels": {"a": "b"}}}, ["TenantParams"]),
            ({"name": "x", "namespace": "gangctl-system"}, []),
        ],
    )
    def test_parameters_in_the_namespace_of_the_jobset(
        self, tmp_path: Path, reference: Object, codes_: list[str]
    ) -> None:
        spec = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
        spec["paramRef"] = {**reference, "parameterNotFoundAction": "Deny"}
        limited = rule("gang.totalPods <= int(params.data.pods)")
        assert codes(tmp_path, policy("p", limited, **spec)) == [(code, "warning", "spec.paramRef") for code in codes_]

    def test_parameters_of_a_kind_without_namespaces(self, tmp_path: Path) -> None:
        reference = {"name": "pods", "parameterNotFoundAction": "Deny"}
        spec = {"paramKind": {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}, "paramRef": reference}
        assert codes(tmp_path, policy("p", rule("gang.totalPods <= params.value"), **spec)) == []

    @each(
        ("match", "code"),
        [
            ({}, "CoversEverything"),
            ({"objectSelector": {"matchLabels": {"a": "b"}}}, "TenantException"),
            ({"names": ["js"]}, "TenantException"),
            ({"namespaces": ["a"]}, ""),
            ({"namespaces": ["a"], "names": ["js"], "objectSelector": {"matchLabels": {"a": "b"}}}, ""),
            ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, ""),
        ],
    )
    def test_exceptions_that_cover_everything_or_that_a_tenant_gives_itself(
        self, tmp_path: Path, match: Object, code: str
    ) -> None:
        soon = (datetime.now(UTC) + timedelta(days=30)).isoformat()
        objects = [policy("p", FEW), exception("e", "p", expires=soon, **match)]
        assert codes(tmp_path, *objects) == ([(code, "error", "spec.match")] if code else [])
        assert lint(tmp_path, *objects).code == bool(code)

    def test_exceptions_without_an_end(self, tmp_path: Path) -> None:
        objects = [policy("p", FEW), exception("e", "p", expires="9999-01-01T00:00:00Z", namespaces=["a"])]
        assert codes(tmp_path, *objects) == [("NeverExpires", "warning", "spec.expiresAt")]
        assert lint(tmp_path, *objects, strict=True).code == 1


def test_a_literal_false_is_the_usual_way_to_deny(tmp_path: Path) -> None:
    conditions = [{"name": "c", "expression": "object.metadata.name == 'a'"}]
    assert codes(tmp_path, policy("p", rule("false"), matchConditions=conditions)) == []


@each("kind", ["message", "messageExpression"])
@each("size", [4096, 5121, 20_000])
def test_long_messages_are_accepted_as_natively(tmp_path: Path, kind: str, size: int) -> None:
    """kube-apiserver has no limit of its own for either (validateValidation of admissionregistration)."""
    text = "m" * size if kind == "message" else f"'{'m' * size}'"
    long = {"name": "r", "expression": "has(object.spec)", kind: text}
    assert codes(tmp_path, policy("p", long), native("n", long, **about("CREATE"))) == []


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
