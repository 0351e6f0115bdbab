"""``gangctl policy test``."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring, parse

import pytest

from gangctl.api.emit import to_yaml
from tests.cli.policy.policies import FEW, QUEUE, QUEUED, Object, config_map, exception, files, namespace, policy, rule
from tests.cli.run import Answer, gangctl
from tests.jobsets import jobset, rj
from tests.rows import each

SMALL = jobset("small", rj("a", 1, 2, 2), mode="Gang")
SMALL["metadata"]["labels"] = {QUEUE: "q"}
LARGE = jobset("large", rj("a", 2, 4, 4), mode="Gang")
LIMITS = policy("limits", FEW, QUEUED)


def row(result: str, resources: Any = "small", policy_name: str = "limits", **fields: Any) -> Object:
    return {"policy": policy_name, "resources": resources, "result": result, **fields}


def suite(directory: Path, *rows: Object, documents: dict[str, list[Object]] | None = None, **fields: Any) -> Path:
    """A test file and what it names: by default ``policies.yaml`` and ``resources.yaml``."""
    directory.mkdir(parents=True, exist_ok=True)
    files(directory, **{"policies": [LIMITS], "resources": [SMALL, LARGE], **(documents or {})})
    test: Object = {
        "apiVersion": "gangctl.dev/v1alpha1",
        "kind": "PolicyTest",
        "policies": ["policies.yaml"],
        "resources": ["resources.yaml"],
        **fields,
        "results": list(rows),
    }
    path = directory / "gangctl-test.yaml"
    path.write_text(to_yaml([test]))
    return path


def run(*arguments: str | Path) -> Answer:
    return gangctl("policy", "test", *map(str, arguments))


GOOD = (
    row("pass"),
    row("fail", ["large"], rule="few-pods", message="has 8 pods, at most 4 are allowed"),
    row("fail", "t/large", rule="queued", messageRegex="^needs"),
)


class TestResults:
    def test_a_suite_with_expected_results_passes(self, tmp_path: Path) -> None:
        path = suite(tmp_path / "queue", *GOOD)
        answer = run(tmp_path)
        assert (answer.code, answer.err) == (0, "")
        lines = answer.out.splitlines()
        assert lines[0].split() == ["TEST", "POLICY", "RULE", "OBJECT", "OPERATION", "FILE", "RESULT"]
        assert lines[1].split()[:5] == ["ok", "limits", "*", "t/small", "CREATE"]
        assert lines[1].split()[5].startswith(f"{path}:")
        assert lines[1].split()[6] == "pass"
        assert lines[-2].startswith("3 tests, 0 failed")
        assert lines[-1] == "  coverage: 2 of 2 rules seen to pass and to fail"

    def test_an_unexpected_result_fails(self, tmp_path: Path) -> None:
        path = suite(tmp_path, *GOOD, row("pass", "large", rule="few-pods", description="large is small"))
        answer = run(path)
        assert answer.code == 1
        (failed,) = [line for line in answer.out.splitlines() if line.strip().startswith("FAIL")]
        assert f" {path}:" in failed
        assert "expected pass, got fail" in " ".join(answer.out.split())
        assert "4 tests, 1 failed" in answer.out

    @each(
        ("wrong", "words"),
        [
            (row("fail", "large", rule="few-pods", message="has 9 pods"), "expected the message 'has 9 pods'"),
            (row("fail", "large", rule="few-pods", messageRegex="nodes"), "a message that matches 'nodes'"),
            (row("warn", "large", rule="queued"), "expected warn, got fail"),
            (row("error", "small"), "expected error, got pass"),
            (row("skip", "small"), "expected skip, got pass"),
        ],
    )
    def test_a_failed_test_has_its_difference(self, tmp_path: Path, wrong: Object, words: str) -> None:
        answer = run(suite(tmp_path, wrong), "-o", "json")
        assert answer.code == 1
        assert words in answer.json["results"][0]["failure"]

    def test_only_failures_are_printed_if_requested(self, tmp_path: Path) -> None:
        suite(tmp_path / "a", *GOOD)
        suite(tmp_path / "b", *GOOD, row("pass", "large"))
        answer = run(tmp_path, "--fail-only")
        assert answer.code == 1
        assert "a/gangctl-test.yaml" not in answer.out
        assert " ok " not in answer.out
        assert len(run(tmp_path, "--fail-only", "-o", "json").json["results"]) == 1

    def test_tests_are_selected_by_name(self, tmp_path: Path) -> None:
        path = suite(tmp_path / "queue", *GOOD)
        data = run(path, "--run", "^queue/limits/.* t/large CREATE$", "-o", "json").json
        assert [each["rule"] for each in data["results"]] == ["few-pods", "queued"]

    def test_the_report_is_printed_as_json(self, tmp_path: Path) -> None:
        path = suite(tmp_path, *GOOD, metadata={"name": "of-queues"})
        data = run(path, "-o", "json").json
        assert (data["kind"], data["tests"], data["failed"]) == ("PolicyTestReport", 3, 0)
        assert data["coverage"] == {"rules": 2, "covered": 2, "missing": []}
        first = data["results"][0]
        wanted = {"suite": "of-queues", "policy": "limits", "rule": "", "expected": "pass", "actual": "pass"}
        assert {key: first[key] for key in wanted} == wanted
        assert Path(first["file"]).read_text().splitlines()[first["line"] - 1].startswith("- policy: limits")
        assert run(path, "-o", "yaml").documents == [
            {**data, "results": run(path, "-o", "yaml").documents[0]["results"]}
        ]

    def test_an_object_that_cannot_be_evaluated_is_refused(self, tmp_path: Path) -> None:
        asking = policy("asking", rule("authorizer.path('/').check('get').allowed()"))
        path = suite(tmp_path, row("pass", policy_name="asking"), documents={"policies": [asking, LIMITS]})
        answer = run(path)
        assert answer.code == 2
        assert "(Unsupported)" in answer.err
        assert answer.err.endswith("error: 1 error in 1 policy\n")


class TestRequests:
    def test_updates_and_deletes_are_evaluated(self, tmp_path: Path) -> None:
        resources = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": ["jobsets"]}
        constraints = {"resourceRules": [{**resources, "operations": ["UPDATE", "DELETE"]}]}
        grows = rule(
            "object == null ? oldObject.spec.suspend == true : object.metadata.name == oldObject.metadata.name"
        )
        path = suite(
            tmp_path,
            row("pass", "small", "grows", operation="UPDATE", old="old.yaml"),
            row("fail", "stopped", "grows", operation="UPDATE", old="other.yaml"),
            row("pass", "stopped", "grows", operation="DELETE"),
            row("error", "small", "grows", operation="DELETE", messageRegex="no such key"),
            row("skip", "small", "grows"),
            documents={
                "policies": [policy("grows", grows, matchConstraints=constraints)],
                "resources": [SMALL, jobset("stopped", rj("a"), suspend=True)],
                "old": [LARGE, SMALL],
                "other": [LARGE],
            },
        )
        answer = run(path)
        assert answer.code == 0, answer.out

    def test_user_and_namespace_of_a_request_are_evaluated(self, tmp_path: Path) -> None:
        asks = rule("request.userInfo.username == 'ann' && 'ops' in request.userInfo.groups")
        team = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
        path = suite(
            tmp_path,
            row("pass", "JobSet/t/small", "p", user="ann", groups=["ops"]),
            row("fail", "t/small", "p"),
            row("skip", "elsewhere", "p"),
            documents={
                "policies": [policy("p", asks, matchConstraints=team)],
                "resources": [SMALL, jobset("elsewhere", rj("a"), namespace="u")],
                "places": [namespace("t", team="a"), namespace("u")],
            },
            namespaces=["places.yaml"],
        )
        answer = run(path)
        assert (answer.code, answer.err) == (0, "")

    def test_each_parameter_object_is_evaluated(self, tmp_path: Path) -> None:
        limited = policy(
            "p",
            rule("gang.totalPods <= int(params.data.pods)"),
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            paramRef={"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Deny"},
        )
        maps = [config_map("low", "t", pods="1"), config_map("high", "t", pods="9")]
        for item in maps:
            item["metadata"]["labels"] = {"limits": "yes"}
        path = suite(
            tmp_path,
            row("fail", "small", "p"),
            row("fail", "small", "p", rule="r", params="low"),
            row("pass", "small", "p", rule="r", params="high"),
            documents={"policies": [limited], "limits": maps},
            params=["limits.yaml"],
        )
        assert run(path).code == 0

    def test_exceptions_are_evaluated_at_the_time_of_the_test(self, tmp_path: Path) -> None:
        documents = {"allowed": [exception("e", "limits", "queued", expires="2026-01-02T00:00:00Z")]}
        rows = (row("fail", "large"), row("skip", "large", rule="queued"))
        more = {"exceptions": ["allowed.yaml"]}
        path = suite(tmp_path / "a", *rows, documents=documents, now="2026-01-01T00:00:00Z", **more)
        assert run(path).code == 0
        path = suite(tmp_path / "b", *rows, documents=documents, now="2026-01-02T00:00:00Z", **more)
        assert run(path).code == 1

    def test_what_lies_among_the_resources_counts_as_for_eval(self, tmp_path: Path) -> None:
        team = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
        limited = policy("limits", FEW, matchConstraints=team)
        beside = [namespace("t", team="a"), exception("e", "limits", "few-pods", expires="2026-01-02T00:00:00Z")]
        documents = {"policies": [limited], "resources": [SMALL, LARGE, *beside]}
        path = suite(tmp_path / "a", row("skip", "large"), documents=documents, now="2026-01-01T00:00:00Z")
        assert run(path).code == 0
        path = suite(tmp_path / "b", row("fail", "large"), documents=documents, now="2026-01-02T00:00:00Z")
        assert run(path).code == 0

    @each("field", ["namespaces", "exceptions"])
    def test_other_objects_than_a_field_is_for_are_refused(self, tmp_path: Path, field: str) -> None:
        fields: dict[str, Any] = {field: ["resources.yaml"]}
        answer = run(suite(tmp_path, row("pass"), **fields))
        assert answer.code == 2
        assert f"resources.yaml:1:1: {field} takes " in answer.err
        assert answer.err.endswith(" only, found JobSet\n")

    def test_policies_that_disagree_on_a_default_refuse_the_request(self, tmp_path: Path) -> None:
        policies = [policy("a", defaults={"queue": "x"}), policy("b", defaults={"queue": "y"})]
        path = suite(
            tmp_path,
            row("fail", "large", "a", messageRegex="disagree on the default"),
            row("skip", "small", "a"),
            documents={"policies": policies},
        )
        data = run(path, "-o", "json").json
        assert [each["actual"] for each in data["results"]] == ["fail", "skip"]

    def test_an_object_refused_by_jobset_is_reported_once(self, tmp_path: Path) -> None:
        odd = jobset("odd", {**rj("a"), "replicas": "two"})
        path = suite(tmp_path, row("fail", "odd"), row("fail", "odd", rule="queued"), documents={"resources": [odd]})
        answer = run(path)
        assert answer.err.count("note: ") == 1
        assert "JobSet t/odd is evaluated as written, because JobSet refuses it" in answer.err


class TestMessages:
    @each(
        ("expression", "why"),
        [
            ("string(object.spec.nothing)", "NoSuchKey: "),
            ("''", "it is empty"),
            ("'a\\nb'", "it has more than one line"),
        ],
    )
    def test_a_message_expression_without_a_result_is_reported(self, tmp_path: Path, expression: str, why: str) -> None:
        broken = rule("false") | {"messageExpression": expression}
        path = suite(
            tmp_path, row("fail", policy_name="p", message="broken"), documents={"policies": [policy("p", broken)]}
        )
        answer = run(path)
        assert answer.code == 0
        line = path.read_text().splitlines().index("- policy: p") + 1
        assert answer.err.startswith(f"note: {path}:{line}: p/r: messageExpression says nothing: {why}")

    def test_a_message_is_computed_with_the_parameters_that_break_the_rule(self, tmp_path: Path) -> None:
        over = [{"name": "over", "expression": "[gang.totalPods].filter(pods, pods > int(params.data.pods))"}]
        broken = rule("variables.over.size() == 0") | {"messageExpression": "string(variables.over[0]) + ' pods'"}
        found = {"selector": {}, "namespace": "t", "parameterNotFoundAction": "Deny"}
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        limits = policy("p", broken, variables=over, paramKind=kind, paramRef=found)
        documents = {"policies": [limits], "params": [config_map("a", "t", pods="9"), config_map("b", "t", pods="1")]}
        rows = (row("fail", policy_name="p", message="2 pods"), row("pass", policy_name="p", params="a"))
        answer = run(suite(tmp_path, *rows, documents=documents, params=["params.yaml"]))
        assert (answer.code, answer.err) == (0, "")

    def test_a_message_reads_a_long_chain_of_variables_as_at_admission(self, tmp_path: Path) -> None:
        nested = "[1].map(a, [a].map(b, [b].exists(c, variables.v{0} > 0) ? variables.v{0} : 0).sum()).sum()"
        chain = [{"name": "v0", "expression": "1"}]
        chain += [{"name": f"v{number}", "expression": nested.format(number - 1)} for number in range(1, 64)]
        long = policy("p", rule("false") | {"messageExpression": "'of ' + string(variables.v63)"}, variables=chain)
        path = suite(tmp_path, row("fail", policy_name="p", message="of 1"), documents={"policies": [long]})
        answer = run(path)
        assert (answer.code, answer.err) == (0, "")


class TestCoverage:
    def test_rules_without_both_examples_are_reported(self, tmp_path: Path) -> None:
        path = suite(tmp_path, row("pass"), row("fail", "large", rule="queued"))
        answer = run(path)
        assert answer.code == 0
        assert "coverage: 1 of 2 rules" in answer.out
        assert "  ! limits/few-pods: no failing example\n" in answer.out

    def test_missing_coverage_fails_if_requested(self, tmp_path: Path) -> None:
        answer = run(suite(tmp_path, row("pass"), row("fail", "large", rule="queued")), "--coverage")
        assert answer.code == 1
        assert answer.err == "error: limits/few-pods: no failing example\n"
        assert run(suite(tmp_path, *GOOD), "--coverage").code == 0

    def test_a_test_that_fails_covers_nothing(self, tmp_path: Path) -> None:
        data = run(suite(tmp_path, row("pass"), row("pass", "large")), "-o", "json").json
        assert data["coverage"]["covered"] == 0

    def test_policies_of_the_same_name_are_distinguished(self, tmp_path: Path) -> None:
        suite(tmp_path / "a", *GOOD)
        suite(
            tmp_path / "b", row("pass", "large"), documents={"policies": [policy("limits", rule("true", "few-pods"))]}
        )
        missing = run(tmp_path, "-o", "json").json["coverage"]["missing"]
        assert [each["policy"] for each in missing] == [f"limits ({tmp_path}/b/policies.yaml)"]

    def test_policies_tests_and_objects_can_be_in_one_directory(self, tmp_path: Path) -> None:
        path = suite(tmp_path, *GOOD, policies=["."], resources=["."])
        assert run(path, "--coverage").code == 0


class TestJUnit:
    def test_junit_is_written_beside_the_table(self, tmp_path: Path) -> None:
        path = suite(tmp_path / "queue", *GOOD, row("pass", "large", rule="few-pods"))
        report = tmp_path / "report.xml"
        answer = run(path, "--junit", report)
        assert answer.code == 1
        assert answer.out.startswith("TEST ")
        root = parse(report).getroot()
        assert (root.get("tests"), root.get("failures")) == ("4", "1")
        assert root[0].get("name") == "queue"

    def test_junit_is_printed(self, tmp_path: Path) -> None:
        answer = run(suite(tmp_path, *GOOD), "-o", "junit")
        assert fromstring(answer.out).get("tests") == "3"

    def test_an_unwritable_junit_file_is_an_error(self, tmp_path: Path) -> None:
        answer = run(suite(tmp_path, *GOOD), "--junit", tmp_path / "no" / "report.xml")
        assert answer.code == 2
        assert "--junit" in answer.err


class TestBadInput:
    @each(
        ("rows", "fields", "words"),
        [
            ([row("pass", "nobody")], {}, "no resource fits nobody"),
            ([row("pass", "Service/t/small")], {}, "no resource fits Service/t/small"),
            ([row("pass", policy_name="p")], {}, 'no policy "p"'),
            ([row("pass", rule="none")], {}, 'policy "limits" has no rule "none"'),
            ([row("pass")], {"policies": ["none.yaml"]}, "none.yaml: no such file or directory"),
            ([row("pass")], {"policies": ["x" * 300]}, ": file name too long"),
            ([row("pass")], {"policies": ["x\0"]}, "no path that can be followed"),
            ([row("pass")], {"policies": ["resources.yaml"]}, "no policy in the input"),
            ([row("pass")], {"policies": ["../x.yaml"]}, '".." is not allowed'),
            ([row("perhaps")], {}, "results[0].result: Input should be 'pass'"),
            ([row("pass", colour="red")], {}, "results[0].colour: unknown field"),
            ([], {}, "results"),
            ([row("pass", operation="UPDATE", old="policies.yaml")], {}, "0 objects could be JobSet t/small as it was"),
        ],
    )
    def test_bad_input_is_one_error_with_its_place(
        self, tmp_path: Path, rows: list[Object], fields: dict[str, Any], words: str
    ) -> None:
        answer = run(suite(tmp_path, *rows, **fields))
        assert (answer.code, answer.out) == (2, "")
        assert words in answer.err
        assert "Traceback" not in answer.err

    def test_the_place_is_in_the_test_file(self, tmp_path: Path) -> None:
        path = suite(tmp_path, row("pass"), row("pass", policy_name="p"))
        line = path.read_text().splitlines().index("- policy: p") + 1
        assert run(path).err.startswith(f'error: {path}:{line}:3: no policy "p"\nhint: there are: limits\n')

    def test_no_tests_are_an_error(self, tmp_path: Path) -> None:
        answer = run(tmp_path)
        assert answer.code == 2
        assert "no tests: no gangctl-test.yaml in" in answer.err
        answer = run(suite(tmp_path, *GOOD), "--run", "nothing-such")
        assert (answer.code, answer.out) == (2, "")
        assert "no tests that match 'nothing-such' in 1 test file" in answer.err
        assert run(tmp_path / "none").code == 2
        assert run(tmp_path / ("x" * 300)).code == 2
        assert run(tmp_path, "--run", "(").code == 2

    @each(
        ("fields", "link", "target", "words"),
        [
            ({"policies": ["linked.yaml"]}, "linked.yaml", "outside/a.yaml", "linked.yaml leads out of {}/in"),
            ({"policies": ["linked/a.yaml"]}, "linked", "outside", "linked/a.yaml leads out of {}/in"),
            ({"resources": ["linked"]}, "linked", "outside", "linked leads out of {}/in"),
            ({"resources": ["."]}, "linked.yaml", "outside/a.yaml", "linked.yaml leads out of {}/in"),
            ({"resources": ["sub"]}, "sub/linked.yaml", "outside/a.yaml", "sub/linked.yaml leads out of {}/in"),
            ({"params": ["/etc/hostname"]}, "linked.yaml", "in/policies.yaml", "paths are relative to the test file"),
            ({"params": ["../outside/a.yaml"]}, "linked.yaml", "in/policies.yaml", '".." is not allowed'),
        ],
    )
    def test_nothing_leads_out_of_the_directory(
        self, tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any], link: str, target: str, words: str
    ) -> None:
        place = tmp_path_factory.mktemp("links")
        (place / "outside").mkdir()
        files(place / "outside", a=[LIMITS])
        path = suite(place / "in", row("pass"), **fields)
        (place / "in" / "sub").mkdir()
        (place / "in" / link).symlink_to(place / target)
        answer = run(path)
        assert answer.code == 2
        assert words.format(place) in answer.err

    def test_a_test_below_a_directory_does_not_lead_out_of_it(self, tmp_path: Path) -> None:
        outside = suite(tmp_path / "outside", row("pass"))
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "gangctl-test.yaml").symlink_to(outside)
        answer = run(tmp_path / "in")
        assert answer.code == 2
        assert f"gangctl-test.yaml leads out of {tmp_path}/in" in answer.err

    def test_an_invalid_policy_is_an_error(self, tmp_path: Path) -> None:
        path = suite(tmp_path, row("pass", policy_name="p"), documents={"policies": [policy("p", rule("nothing"))]})
        answer = run(path)
        assert answer.code == 2
        assert f"{tmp_path}/policies.yaml:" in answer.err
        assert answer.err.endswith("error: 1 error in 1 policy\n")
