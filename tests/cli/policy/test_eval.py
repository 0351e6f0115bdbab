"""``gangctl policy eval``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gangctl.api.meta import GANG_MODE, SKIP_LABEL
from tests.cli.policy.policies import (
    FEW,
    QUEUE,
    QUEUED,
    Object,
    binding,
    config_map,
    exception,
    files,
    namespace,
    native,
    policy,
    rule,
)
from tests.cli.run import Answer, gangctl
from tests.gang.pipeline import stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each

SMALL = jobset("small", rj("a", 1, 2, 2), mode="Gang")
LARGE = jobset("large", rj("a", 2, 4, 4), mode="Gang")


def evaluate(directory: Path, policies: list[Object], subjects: list[Object], *arguments: str) -> Answer:
    paths = files(directory, policies=policies, subjects=subjects)
    return gangctl("policy", "eval", "--policy", paths["policies"], "-f", paths["subjects"], *arguments)


def verdict(directory: Path, policies: list[Object], subjects: list[Object], *arguments: str) -> Any:
    answer = evaluate(directory, policies, subjects, "-o", "json", *arguments)
    assert answer.code in {0, 1}, answer.err
    assert answer.code == (0 if answer.json["allowed"] else 1)
    return answer.json


class TestVerdicts:
    def test_an_allowed_object_is_exit_code_0(self, tmp_path: Path) -> None:
        answer = evaluate(tmp_path, [policy("limits", FEW)], [SMALL])
        assert (answer.code, answer.err) == (0, "")
        assert answer.out == "JobSet t/small: allowed\n  1 policy, 1 applies: 1 pass\n"

    def test_a_denial_lists_every_violated_rule(self, tmp_path: Path) -> None:
        answer = evaluate(tmp_path, [policy("limits", FEW, QUEUED)], [SMALL, LARGE])
        assert answer.code == 1
        assert answer.out == (
            "OBJECT           POLICY   RULE       RESULT   ACTION   MESSAGE\n"
            "JobSet t/small   limits   queued     fail     Deny     needs a queue\n"
            "JobSet t/large   limits   few-pods   fail     Deny     has 8 pods, at most 4 are allowed\n"
            "JobSet t/large   limits   queued     fail     Deny     needs a queue\n"
            "\n"
            "JobSet t/small: denied (422)\n"
            "  1 policy, 1 applies: 1 pass, 1 fail\n"
            "\n"
            "JobSet t/large: denied (422)\n"
            "  1 policy, 1 applies: 2 fail\n"
        )

    def test_verdicts_are_printed_as_json(self, tmp_path: Path) -> None:
        forbidden = {**FEW, "reason": "Forbidden"}
        data = verdict(tmp_path, [policy("limits", forbidden)], [LARGE])
        assert {key: data[key] for key in ("kind", "allowed", "code", "message", "operation", "metadata")} == {
            "kind": "PolicyVerdict",
            "allowed": False,
            "code": 403,
            "message": "GangPolicy 'limits' denied request: has 8 pods, at most 4 are allowed",
            "operation": "CREATE",
            "metadata": {"name": "large", "namespace": "t"},
        }
        (denial,) = data["denials"]
        assert (denial["rule"], denial["result"], denial["reason"]) == ("few-pods", "fail", "Forbidden")
        assert data["policies"][0]["steps"] > 0

    def test_name_output_lists_the_denied_objects(self, tmp_path: Path) -> None:
        answer = evaluate(tmp_path, [policy("limits", FEW)], [SMALL, LARGE], "-o", "name")
        assert (answer.code, answer.out) == (1, "jobset.jobset.x-k8s.io/large\n")

    def test_yaml_is_a_stream(self, tmp_path: Path) -> None:
        answer = evaluate(tmp_path, [policy("limits", FEW)], [SMALL, LARGE], "-o", "yaml")
        assert [each["allowed"] for each in answer.documents] == [True, False]

    def test_a_warning_allows_the_object(self, tmp_path: Path) -> None:
        answer = evaluate(tmp_path, [policy("limits", QUEUED, validationActions=["Warn"])], [SMALL])
        assert answer.code == 0
        assert "\nJobSet t/small: allowed, with warnings\n" in answer.out
        assert "! Validation failed for GangPolicy 'limits': needs a queue" in answer.out

    def test_the_action_flag_overrides_policies_and_bindings(self, tmp_path: Path) -> None:
        policies = [policy("limits", QUEUED, validationActions=["Warn"]), native("queued", QUEUED)]
        denied = evaluate(tmp_path, policies, [SMALL], "--action", "deny")
        assert (denied.code, denied.out.count(" Deny ")) == (1, 2)
        warned = evaluate(tmp_path, policies, [SMALL], "--action", "Warn")
        assert (warned.code, warned.out.count(" Warn ")) == (0, 2)
        assert "evaluated as if bound with validationActions [Warn]" in warned.err
        assert evaluate(tmp_path, policies, [SMALL], "--action", "ignore").code == 2

    def test_skipped_policies_have_a_reason(self, tmp_path: Path) -> None:
        never = [{"name": "no", "expression": "false"}]
        policies = [policy("a", QUEUED, matchConditions=never), policy("b", FEW)]
        answer = evaluate(
            tmp_path, policies, [SMALL, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}]
        )
        assert answer.code == 0
        assert "  2 policies, 1 applies: 1 pass\n  skipped a: matchConditions[no]\n" in answer.out
        assert "Service default/s: allowed\n  2 policies, 0 apply: no rule\n  skipped a: resource\n" in answer.out

    def test_errors_follow_the_failure_policy(self, tmp_path: Path) -> None:
        missing = rule("object.spec.nothing == 1")
        closed, opened = policy("closed", missing), policy("opened", missing, failurePolicy="Ignore")
        answer = evaluate(tmp_path, [closed, opened], [SMALL])
        assert answer.code == 1
        assert [line.split()[2:6] for line in answer.out.splitlines()[1:3]] == [
            ["closed", "r", "error", "Deny"],
            ["opened", "r", "error", "-"],
        ]

    def test_explain_prints_the_values_of_variables(self, tmp_path: Path) -> None:
        variables = [
            {"name": "pods", "expression": "gang.totalPods"},
            {"name": "twice", "expression": "variables.pods * 2"},
            {"name": "broken", "expression": "object.spec.nothing"},
        ]
        limits = policy("limits", rule("variables.twice > 1"), variables=variables)
        answer = evaluate(tmp_path, [limits], [SMALL], "--details")
        assert answer.code == 0
        assert "  limits: variables.pods = 2\n  limits: variables.twice = 4\n" in answer.out
        assert "  limits: variables.broken = NoSuchKey: " in answer.out
        assert "   limits   r      pass     -        -\n" in answer.out
        data = verdict(tmp_path, [limits], [SMALL], "--details")
        assert data["policies"][0]["variables"]["twice"] == "4"


class TestRequests:
    def test_defaulted_fields_are_present(self, tmp_path: Path) -> None:
        bare = jobset("bare", rj("a", None, 1, 1))
        whole = rule("object.spec.replicatedJobs[0].replicas == 1 && object.spec.network.enableDNSHostnames")
        assert verdict(tmp_path, [policy("p", whole)], [bare])["allowed"]

    def test_a_jobset_that_jobset_refuses_is_evaluated_as_written(self, tmp_path: Path) -> None:
        odd = jobset("odd", {**rj("a"), "replicas": "two"})
        data = verdict(tmp_path, [policy("p", rule("object.spec.replicatedJobs[0].replicas == 'two'"))], [odd])
        assert data["allowed"]
        (note,) = data["notes"]
        assert note.startswith("JobSet t/odd is evaluated as written, because JobSet refuses it: ")

    def test_user_and_operation_can_be_given(self, tmp_path: Path) -> None:
        asks = rule(
            "request.userInfo.username == 'ann' && 'ops' in request.userInfo.groups && request.name == 'small'"
            " && request.namespace == 't' && request.kind.kind == 'JobSet' && request.resource.resource == 'jobsets'"
        )
        assert verdict(tmp_path, [policy("p", asks)], [SMALL], "--user", "ann", "--group", "ops")["allowed"]
        assert not verdict(tmp_path, [policy("p", asks)], [SMALL])["allowed"]

    def test_an_update_is_evaluated_with_the_old_object(self, tmp_path: Path) -> None:
        resources = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": ["jobsets"]}
        constraints = {"resourceRules": [{**resources, "operations": ["UPDATE"]}]}
        grows = policy(
            "p",
            rule("size(object.spec.replicatedJobs) >= size(oldObject.spec.replicatedJobs)"),
            matchConstraints=constraints,
        )
        before = files(tmp_path, old=[jobset("small", rj("a", 1, 2, 2), rj("b")), LARGE])["old"]
        data = verdict(tmp_path, [grows], [SMALL], "--operation", "UPDATE", "--old", before)
        assert (data["allowed"], data["operation"]) == (False, "UPDATE")
        same = files(tmp_path, old=[SMALL])["old"]
        assert verdict(tmp_path, [grows], [SMALL], "--operation", "update", "--old", same)["allowed"]

    def test_an_update_is_evaluated_without_what_it_takes_away(self, tmp_path: Path) -> None:
        resources = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": ["jobsets"]}
        constraints = {"resourceRules": [{**resources, "operations": ["UPDATE"]}]}
        named = policy("p", rule("has(object.spec.network)"), matchConstraints=constraints)
        for spec, allowed in (({"network": {"enableDNSHostnames": True}}, False), ({}, True)):
            before = files(tmp_path, old=[{**SMALL, "spec": {**SMALL["spec"], **spec}}])["old"]
            data = verdict(tmp_path, [named], [SMALL], "--operation", "UPDATE", "--old", before)
            assert data["allowed"] is allowed

    def test_an_update_has_again_what_its_file_lacks(self, tmp_path: Path) -> None:
        """Admission restores stamps, and what defaults of a policy wrote, before it asks policies."""
        in_a_gang = policy("p", rule("size(gang.groups) == 1 && gang.groups[0].minCount == 12"))
        before = stored(jobset("train", rj("w", 1, 8, 8), mode="Gang", uid=FIXTURE_UID))
        after, was = jobset("train", rj("w", 1, 12, 12)), files(tmp_path, old=[before])["old"]
        data = verdict(tmp_path, [in_a_gang], [after], "--operation", "UPDATE", "--old", was)
        (note,) = data["notes"]
        assert (data["allowed"], note.split(" ", 2)[:2]) == (
            True,
            ["ConfigIgnored:", f"metadata.annotations[{GANG_MODE}]"],
        )
        # No webhook of gangctl is called there.
        elsewhere = native("p", rule("!has(object.metadata.annotations)"))
        place = files(tmp_path, place=[namespace("t", **{SKIP_LABEL: "true"})])["place"]
        arguments = ("--operation", "UPDATE", "--old", was, "--namespace-object", place)
        data = verdict(tmp_path, [elsewhere, binding("b", "p")], [after], *arguments)
        assert (data["allowed"], data["policies"][0]["matched"]) == (True, True)

    def test_a_delete_is_evaluated(self, tmp_path: Path) -> None:
        resources = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": ["jobsets"]}
        constraints = {"resourceRules": [{**resources, "operations": ["DELETE"]}]}
        keeps = policy("p", rule("object == null && oldObject.spec.suspend"), matchConstraints=constraints)
        answer = evaluate(
            tmp_path, [keeps], [jobset("a", rj("a"), suspend=True), SMALL], "--operation", "DELETE", "-o", "name"
        )
        assert answer.out == "jobset.jobset.x-k8s.io/small\n"

    def test_namespace_objects_are_evaluated(self, tmp_path: Path) -> None:
        team = rule("namespaceObject.metadata.labels.team == 'a'")
        selecting = policy("p", team, matchConstraints={"namespaceSelector": {"matchLabels": {"team": "a"}}})
        place = files(tmp_path, place=[namespace("t", team="a")])["place"]
        data = verdict(tmp_path, [selecting], [SMALL], "--namespace-object", place)
        assert data["policies"][0]["rules"][0]["result"] == "pass"
        assert verdict(tmp_path, [selecting, namespace("t", team="a")], [SMALL])["policies"][0]["matched"]
        unknown = verdict(tmp_path, [selecting], [SMALL])
        assert unknown["policies"][0]["skipped"] == "namespaceSelector"
        assert unknown["notes"] == ["no Namespace t among the files: taken to be one without labels of its own"]

    def test_no_gang_policy_applies_where_gangctl_evaluates_nothing(self, tmp_path: Path) -> None:
        place = files(tmp_path, place=[namespace("t", **{SKIP_LABEL: "true"})])["place"]
        data = verdict(tmp_path, [policy("p", rule("false"))], [SMALL], "--namespace-object", place)
        assert (data["allowed"], data["policies"][0]["skipped"]) == (True, "namespace")
        assert data["notes"] == ["no GangPolicy applies in namespace t"]
        system = {**SMALL, "metadata": {"name": "small", "namespace": "kube-system"}}
        both = verdict(tmp_path, [policy("p", rule("false")), native("n", rule("false"))], [system])
        assert [(one["policy"], one["matched"]) for one in both["policies"]] == [("n", True), ("p", False)]

    def test_the_namespace_flag_applies_to_objects_without_one(self, tmp_path: Path) -> None:
        homeless = {**SMALL, "metadata": {"name": "small"}}
        here = policy("p", rule("request.namespace == 'ml' && object.metadata.namespace == 'ml'"))
        assert verdict(tmp_path, [here], [homeless], "-n", "ml")["allowed"]
        answer = evaluate(tmp_path, [here], [SMALL], "-n", "ml")
        assert answer.code == 2
        assert 'metadata.namespace: is "t" but --namespace is "ml"' in answer.err

    @pytest.mark.parametrize("where", ["policies", "subjects", "own file"])
    def test_parameters_are_read_from_any_file(self, tmp_path: Path, where: str) -> None:
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
        limited = policy("p", rule("gang.totalPods <= int(params.data.pods)"), paramKind=kind, paramRef=reference)
        limits = config_map("limits", "t", pods="2")
        own = ["--params", files(tmp_path, own=[limits])["own"]] if where == "own file" else []
        policies, subjects = [limited], [SMALL]
        if where != "own file":
            (policies if where == "policies" else subjects).append(limits)
        data = verdict(tmp_path, policies, subjects, *own)
        assert data["allowed"]
        assert data["policies"][0]["rules"][0]["params"] == "t/limits"
        assert not verdict(tmp_path, [limited], [SMALL])["allowed"]

    def test_defaults_come_before_the_rules(self, tmp_path: Path) -> None:
        gives = policy("gives", QUEUED, rule("gang.gangedPods == 1"), defaults={"queue": "q", "gangMode": "Gang"})
        plain = jobset("plain", rj("a"))
        data = verdict(tmp_path, [gives], [plain])
        assert data["allowed"]
        assert {each["field"]: (each["value"], each["policies"]) for each in data["defaults"]} == {
            f"metadata.labels[{QUEUE}]": ("q", ["gives"]),
            "metadata.annotations[gangctl.dev/gang-mode]": ("Gang", ["gives"]),
        }
        other = policy("other", defaults={"queue": "r"})
        denied = verdict(tmp_path, [gives, other], [plain])
        assert (denied["allowed"], denied["code"]) == (False, 422)
        assert "policies disagree on the default: GangPolicy 'gives'" in denied["message"]

    def test_a_default_from_a_queue_map_names_its_entry(self, tmp_path: Path) -> None:
        match = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
        maps = policy("maps", defaults={"queues": [{"match": match, "queue": "team-a"}], "queue": "rest"})
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t", "labels": {"team": "a"}}}
        found = verdict(tmp_path, [maps], [jobset("plain", rj("a")), namespace])
        assert found["defaults"] == [
            {"field": f"metadata.labels[{QUEUE}]", "value": "team-a", "policies": ["maps"]},
        ]
        unknown = verdict(tmp_path, [maps], [jobset("plain", rj("a"))])
        assert [each["value"] for each in unknown["defaults"]] == ["rest"]
        assert "no Namespace t among the files" in str(unknown["notes"])

    def test_defaults_of_a_policy_that_does_not_match_are_not_set(self, tmp_path: Path) -> None:
        never = [{"name": "no", "expression": "false"}]
        gives = policy("gives", matchConditions=never, defaults={"queue": "q"})
        assert verdict(tmp_path, [gives], [jobset("plain", rj("a"))])["defaults"] == []

    def test_defaults_of_a_policy_without_its_parameters_are_not_set(self, tmp_path: Path) -> None:
        reference = {"name": "limits", "parameterNotFoundAction": "Allow"}
        takes = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "paramRef": reference}
        gives, plain = policy("gives", **takes, defaults={"queue": "q"}), jobset("plain", rj("a"))
        assert verdict(tmp_path, [gives], [plain])["defaults"] == []
        present = verdict(tmp_path, [gives, config_map("limits", "t")], [plain])
        assert [value["value"] for value in present["defaults"]] == ["q"]

    @each(("failure_policy", "allowed"), [("Fail", False), ("Ignore", True)])
    @each("rules", [[], [rule("true")]])
    def test_a_condition_of_defaults_that_fails_follows_the_failure_policy(
        self, tmp_path: Path, rules: list[Object], failure_policy: str, allowed: bool
    ) -> None:
        conditions = [{"name": "team", "expression": "object.metadata.labels.team == 'a'"}]
        more = {"failurePolicy": failure_policy, "validationActions": ["Warn"], "matchConditions": conditions}
        data = verdict(tmp_path, [policy("gives", *rules, defaults={"queue": "q"}, **more)], [jobset("plain", rj("a"))])
        assert data["allowed"] is allowed
        assert allowed or (data["code"], data["denials"][0]["policy"]) == (422, "gives")


class TestNatives:
    def test_native_policies_are_evaluated_with_their_bindings(self, tmp_path: Path) -> None:
        queued = native("queued", QUEUED)
        bindings = [binding("warn", "queued", "Warn"), binding("deny", "queued", "Deny", "Audit")]
        data = verdict(tmp_path, [queued, *bindings], [SMALL])
        assert [each["policy"] for each in data["policies"]] == ["queued/deny", "queued/warn"]
        assert [each["policy"] for each in data["denials"]] == ["queued/deny"]
        assert len(data["warnings"]) == 1

    def test_a_native_policy_without_a_binding_denies_with_a_note(self, tmp_path: Path) -> None:
        answer = evaluate(tmp_path, [native("queued", QUEUED)], [SMALL])
        assert answer.code == 1
        assert (
            answer.err
            == "note: no binding of queued among the files: evaluated as if bound with validationActions [Deny]\n"
        )

    def test_a_binding_without_a_policy_is_reported(self, tmp_path: Path) -> None:
        answer = evaluate(tmp_path, [policy("p", FEW), binding("b", "elsewhere")], [SMALL])
        assert answer.err == "note: binding b has no policy among the files\n"

    def test_native_policies_about_other_kinds_are_evaluated(self, tmp_path: Path) -> None:
        resources = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}
        closed = native("closed", rule("false"), matchConstraints={"resourceRules": [resources]})
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
        answer = evaluate(tmp_path, [closed], [service, SMALL], "-o", "name")
        assert answer.out == "service/s\n"


class TestExceptions:
    def test_an_exception_applies_until_it_expires(self, tmp_path: Path) -> None:
        allowed = exception("large-ones", "limits", "few-pods", names=["lar*"])
        data = verdict(tmp_path, [policy("limits", FEW), allowed], [LARGE])
        assert data["allowed"]
        (finding,) = data["policies"][0]["rules"]
        assert (finding["result"], finding["exception"]) == ("exempt", "large-ones")
        ended = exception("large-ones", "limits", expires="2020-01-01T00:00:00Z")
        assert not verdict(tmp_path, [policy("limits", FEW), ended], [LARGE])["allowed"]
        answer = evaluate(tmp_path, [policy("limits", FEW), allowed], [LARGE])
        assert "allowed by exception large-ones: has 8 pods" in " ".join(answer.out.split())


LOOPS = "object.spec.replicatedJobs.all(a, object.spec.replicatedJobs.all(b, object.spec.replicatedJobs.all(c, {})))"


class TestBudgets:
    def test_an_expression_above_the_budget_is_an_error(self, tmp_path: Path) -> None:
        wide = jobset("wide", *(rj(f"a-{index}") for index in range(90)))
        endless = policy("endless", rule(LOOPS.format("a.name + b.name + c.name != ''")))
        data = verdict(tmp_path, [endless, policy("limits", rule("true"))], [wide])
        assert not data["allowed"]
        endless_said, limits_said = data["policies"]
        assert endless_said["rules"][0]["error"] in {"BudgetExceeded", "DeadlineExceeded"}
        assert limits_said["rules"][0]["result"] == "pass"


def test_one_file_can_have_policies_and_objects(tmp_path: Path) -> None:
    paths = files(tmp_path, both=[policy("p", FEW), SMALL])
    answer = gangctl("policy", "eval", "-p", paths["both"], "-f", paths["both"], "-o", "json")
    assert answer.code == 0, answer.err
    assert [each["policy"] for each in answer.json["policies"]] == ["p"]


class TestBadInput:
    def test_an_invalid_policy_is_an_error(self, tmp_path: Path) -> None:
        answer = evaluate(tmp_path, [policy("p", rule("object.spec.exists(x, y)"), rule("1 + 'a' == 2"))], [SMALL])
        assert (answer.code, answer.out) == (2, "")
        lines = answer.err.splitlines()
        assert lines[0].startswith(f"{tmp_path}/policies.yaml:8:")
        assert lines[1].strip() == "expression: object.spec.exists(x, y)"
        assert set(lines[2].strip()) == {"^"}
        assert lines[-1] in {"error: 2 errors in 1 policy", "error: 3 errors in 1 policy"}

    @each(
        ("policies", "subjects", "arguments", "words"),
        [
            ([SMALL], [SMALL], (), "no policy in the input: found 2 JobSet"),
            ([policy("p", FEW)], [policy("q", FEW)], (), "nothing to evaluate"),
            ([policy("p", FEW), policy("p", FEW)], [SMALL], (), 'GangPolicy "p" is also at'),
            ([policy("p", FEW)], [{"kind": "JobSet"}], (), "an object needs apiVersion and kind"),
            ([policy("p", FEW)], [{"apiVersion": "v1", "kind": "Pod"}], (), "metadata.name: Pod needs a name"),
            ([policy("p", FEW)], [SMALL], ("--operation", "UPDATE"), "--operation UPDATE and --old belong together"),
            ([policy("p", FEW)], [SMALL], ("--params", "/nowhere.yaml"), "no such file"),
            ([policy("p", FEW), exception("e", "p", expires="soon")], [SMALL], (), "spec.expiresAt"),
        ],
    )
    def test_bad_input_is_one_error_and_exit_code_2(
        self, tmp_path: Path, policies: list[Object], subjects: list[Object], arguments: tuple[str, ...], words: str
    ) -> None:
        answer = evaluate(tmp_path, policies, subjects, *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert words in answer.err
        assert "Traceback" not in answer.err

    def test_an_update_needs_the_old_object(self, tmp_path: Path) -> None:
        before = files(tmp_path, old=[LARGE])["old"]
        answer = evaluate(tmp_path, [policy("p", FEW)], [SMALL], "--operation", "UPDATE", "--old", before)
        assert answer.code == 2
        assert "0 objects of --old are JobSet t/small, 1 is wanted" in answer.err

    def test_namespace_objects_are_namespaces(self, tmp_path: Path) -> None:
        other = files(tmp_path, other=[SMALL])["other"]
        answer = evaluate(tmp_path, [policy("p", FEW)], [SMALL], "--namespace-object", other)
        assert answer.code == 2
        assert "--namespace-object takes Namespaces only" in answer.err

    def test_other_files_in_a_directory_of_policies_are_ignored(self, tmp_path: Path) -> None:
        kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
        assert evaluate(tmp_path, [policy("p", FEW), kustomization, LARGE], [SMALL]).code == 0

    @each("kind", ["GangAdmissionParameters", "Gang"])
    def test_the_other_objects_of_gangctl_may_lie_beside_policies(self, kind: str, tmp_path: Path) -> None:
        other = {"apiVersion": "gangctl.dev/v1alpha1", "kind": kind, "metadata": {"name": "x"}}
        answer = evaluate(tmp_path, [policy("p", FEW), other], [SMALL])
        assert (answer.code, answer.err) == (0, "")

    def test_stdin_is_read_once_for_queues_too(self) -> None:
        answer = gangctl("policy", "eval", "--policy", "p.yaml", "-f", "-", "--queues", "-", stdin="")
        assert answer.code == 2
        assert "stdin can be read only once" in answer.err

    def test_stdin_is_read_once(self) -> None:
        answer = gangctl("policy", "eval", "--policy", "-", "-f", "-", stdin="")
        assert answer.code == 2
        assert "stdin can be read only once" in answer.err


class TestMisspelt:
    """What would otherwise never be asked."""

    @each(
        ("field", "written", "reported"),
        [
            ("kind", "GangPolcy", 'kind: gangctl.dev has no kind "GangPolcy"'),
            ("kind", "gangpolicy", 'kind: gangctl.dev has no kind "gangpolicy"'),
            ("apiVersion", "gangctl.dev", "apiVersion: of GangPolicy it is gangctl.dev/v1alpha1"),
            ("apiVersion", "gangctl.io/v1", "apiVersion: of GangPolicy it is gangctl.dev/v1alpha1"),
        ],
    )
    def test_a_misspelt_policy_is_an_error(self, tmp_path: Path, field: str, written: str, reported: str) -> None:
        misspelt = {**policy("other", rule("false")), field: written}
        answer = evaluate(tmp_path, [policy("limits", FEW), misspelt], [SMALL])
        assert answer.code == 2
        assert reported in answer.err

    def test_a_misspelt_native_policy_or_binding_is_an_error(self, tmp_path: Path) -> None:
        wrong = [
            {**native("n", QUEUED), "kind": "ValidatingAdmisionPolicy"},
            {**binding("b", "n"), "apiVersion": "admission.k8s.io/v1"},
        ]
        answer = evaluate(tmp_path, [policy("limits", FEW), *wrong], [SMALL])
        assert answer.code == 2
        assert 'has no kind "ValidatingAdmisionPolicy"' in answer.err
        assert "of ValidatingAdmissionPolicyBinding it is admissionregistration.k8s.io/v1" in answer.err


class TestWhoseCel:
    """GangPolicies are gangctl's to evaluate, native ones the cluster's."""

    BACKTICKS = rule("object.metadata.labels.`kueue.x-k8s.io/queue-name` == 'q'", message="not in that queue")

    def test_a_gang_policy_is_evaluated_the_same_on_every_minor(self, tmp_path: Path) -> None:
        subject = jobset("queued", rj("a", 1, 2, 2))
        subject["metadata"]["labels"] = {QUEUE: "q", "note": "x" * 63}
        for minor in ("1.35", "1.36", "1.37"):
            reported = verdict(tmp_path, [policy("p", self.BACKTICKS)], [subject], "--kube", minor)
            assert reported["policies"][0]["rules"][0]["result"] == "pass"

    def test_a_native_policy_is_compiled_as_on_its_minor(self, tmp_path: Path) -> None:
        natives = [native("n", self.BACKTICKS), binding("b", "n")]
        answer = evaluate(tmp_path, natives, [SMALL], "--kube", "1.36")
        assert answer.code == 2
        assert "since Kubernetes 1.37" in answer.err
        assert evaluate(tmp_path, natives, [SMALL], "--kube", "1.37").code == 1


def test_workers_that_do_not_work_are_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangctl.evaluation.evaluator.size_of", lambda *_: "large")
    monkeypatch.setattr("gangctl.evaluation.loader.SERVICE", "tests.evaluation.brokenservices:dies_at_once")
    answer = evaluate(tmp_path, [policy("p", rule("true"), failurePolicy="Ignore")], [SMALL])
    assert answer.code == 70
    assert answer.out == ""
    [error] = [line for line in answer.err.splitlines() if line.startswith("error: ")]
    assert "no policy-worker works since" in error
    assert "exited with 1: ModuleNotFoundError in dies_at_once" in error
