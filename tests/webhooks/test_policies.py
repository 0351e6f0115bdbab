"""Verdicts as the API server takes them: code, first message, causes, warnings, notes; and what is asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.api.objects import Object
from gangctl.cel.ast import Literal, Span
from gangctl.cel.environments import CheckedExpression
from gangctl.cel.meter import Frame
from gangctl.cel.program import Program
from gangctl.cel.types import BOOL
from gangctl.fit.report import FitReport
from gangctl.gang.resolve import ClusterRules
from gangctl.policy.load import fails_closed
from gangctl.policy.loaded import BrokenPolicy, Expression, LoadedPolicy, PolicySet, Programs, Rule
from gangctl.policy.model import GangPolicy, LabelSelector
from gangctl.policy.review import JOBSET_RULES, Review
from gangctl.policy.variables import Scope, unknown_fit
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction
from gangctl.webhooks.configurations import MUTATE_DEFAULTS, VALIDATE_FAIL, NeededWebhooks
from gangctl.webhooks.policies import PolicyAdmission, annotation_key, demand_of
from gangctl.webhooks.review import AdmissionRequest, AdmissionResponse, Handler, Kind, Operation
from tests.gang.pipeline import stored
from tests.jobsets import jobset, rj
from tests.rows import each

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t", "labels": {"team": "a"}}}
RESOURCE = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets"}


def model(name: str, **spec: Any) -> GangPolicy:
    spec = {"validations": [{"expression": "true"}], **spec}
    document = {"apiVersion": "gangctl.dev/v1alpha1", "kind": "GangPolicy", "metadata": {"name": name}, "spec": spec}
    return GangPolicy.model_validate(document)


def never(frame: Frame) -> object:
    """An expression that is not evaluated here."""
    raise AssertionError(frame)


def loaded(name: str, reads: str = "object", **spec: Any) -> LoadedPolicy:
    """A policy as the webhooks see it; the view gives the results of its expressions."""
    span, none = Span(0, 4), frozenset[str]()
    checked = CheckedExpression("true", Literal(span, "bool", value=True), BOOL, frozenset({reads}), none, none)
    rule = Rule("0", Expression("spec.validations[0].expression", checked, Program(never)), "", None, "Invalid")
    return LoadedPolicy(name, model(name, **spec).spec, {}, native=False, programs=Programs(rules=(rule,)))


def broken(name: str, **spec: Any) -> BrokenPolicy:
    read = model(name, **spec)
    actions = frozenset(map(ValidationAction, read.spec.validation_actions))
    reason = "the policy cannot be used: why"
    return BrokenPolicy(name, {}, reason, read.spec, fails_closed({"spec": spec}), actions)


@dataclass
class View:
    """A cluster with policies whose outcome a test sets."""

    in_force: PolicySet = field(default_factory=PolicySet)
    outcomes: tuple[Outcome, ...] = ()
    known: Object | None = field(default_factory=lambda: NAMESPACE)
    parameters: list[Object] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    asked: Collection[str] | None = None
    meanwhile: PolicySet | None = None
    """What is in force once a Namespace has been looked at."""

    @property
    def catalogue(self) -> View:
        return self

    def scope(self, api_version: str, kind: str) -> Scope | None:
        return "Namespaced" if (api_version, kind) == ("v1", "ConfigMap") else None

    def find(
        self, api_version: str, kind: str, namespace: str, *, name: str = "", selector: LabelSelector | None = None
    ) -> Sequence[Object]:
        assert (api_version, kind, namespace, selector) == ("v1", "ConfigMap", "t", None)
        return [each for each in self.parameters if each["metadata"]["name"] == name]

    def cluster_rules(self) -> ClusterRules:
        return ClusterRules()

    def fit(self, raw: Object, namespace: str, *, new: bool = True) -> FitReport:  # noqa: ARG002
        return unknown_fit(raw, namespace, ["nobody was asked"])

    def now(self) -> datetime:
        return NOW

    async def namespace(self, name: str) -> Object | None:
        assert name == "t"
        self.in_force = self.meanwhile or self.in_force
        return self.known

    async def evaluate(self, review: Review, policies: Collection[str] | None = None) -> tuple[Outcome, ...]:
        self.reviews.append(review)
        self.asked = policies
        return self.outcomes


def asked(operation: Operation = "CREATE", raw: dict[str, Any] | None = None) -> AdmissionRequest:
    raw = raw or jobset("js", rj("w", 1, 2, 2, mode="Gang"))
    variable = {"resource": RESOURCE, "namespace": "t", "name": "js", "operation": operation}
    return AdmissionRequest(
        "uid",
        operation,
        Kind("jobset.x-k8s.io", "v1alpha2", "JobSet"),
        "t",
        "js",
        object=None if operation == "DELETE" else raw,
        old_object=raw if operation != "CREATE" else None,
        variable=variable,
    )


def failed(policy: str, rule: str, *actions: ValidationAction, message: str = "no", reason: str = "Invalid") -> Outcome:
    finding = Finding(policy, rule, Result.FAIL, message, reason)
    return Outcome(policy, matched=True, actions=frozenset(actions), findings=(finding,), violations=(finding,))


async def test_the_first_denial_by_name_leads_and_causes_list_all() -> None:
    outcomes = (
        failed("b", "0", ValidationAction.DENY, message="second"),
        failed("a", "named", ValidationAction.DENY, message="first", reason="Forbidden"),
        failed("c", "0", ValidationAction.WARN, message="third"),
    )
    view = View(PolicySet(1, tuple(loaded(name) for name in "abc")), outcomes)
    answer = await PolicyAdmission(view).validate_or_refuse(asked())
    assert (answer.allowed, answer.code, answer.reason) == (False, 403, "Forbidden")
    assert answer.message == "GangPolicy 'a' denied request: first"
    assert [(c.reason, c.message, c.field) for c in answer.causes if not hasattr(c, "path")] == [
        ("Forbidden", "first", "a/named"),
        ("Invalid", "second", "b/0"),
    ]
    assert answer.warnings == ("Validation failed for GangPolicy 'c': third",)


async def test_audit_annotations_have_valid_keys() -> None:
    outcome = failed("team.rules", "0", ValidationAction.AUDIT)
    view = View(PolicySet(1, (loaded("team.rules"),)), (outcome,))
    answer = await PolicyAdmission(view).validate_or_refuse(asked())
    assert answer.allowed
    assert answer.audit_annotations == {"team.rules_validation_failure": "no"}


def test_long_audit_keys_are_distinct_and_within_the_limit() -> None:
    keys = {annotation_key(f"{'p' * 200}/{key}") for key in ("one", "two")}
    assert len(keys) == 2
    assert {len(key) for key in keys} == {63}


async def test_the_review_is_complete() -> None:
    parameter = {"metadata": {"name": "limits", "namespace": "t"}, "data": {"max": "3"}}
    reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
    policy = loaded("a", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}, paramRef=reference)
    view = View(PolicySet(1, (policy,)), parameters=[parameter])
    await PolicyAdmission(view).validate_or_refuse(asked())
    (review,) = view.reviews
    assert (review.operation, review.now, review.namespace) == ("CREATE", NOW, NAMESPACE)
    assert review.request["name"] == "js"
    assert [each["data"] for each in review.params["a"]] == [{"max": "3"}]
    view.parameters.clear()
    await PolicyAdmission(view).validate_or_refuse(asked())
    assert "no params found" in view.reviews[1].param_errors["a"]


async def test_a_deletion_has_no_object_and_no_gang() -> None:
    view = View(PolicySet(1, (loaded("a"),)))
    await PolicyAdmission(view).validate_or_refuse(asked("DELETE"))
    (review,) = view.reviews
    assert (review.object, review.gang) == (None, None)
    assert review.old_object is not None


async def test_a_new_jobset_without_stamps_is_no_gang_to_validations_and_may_be_one_to_defaults() -> None:
    """A Workload that claims its name makes gangctl leave it alone: its pods are scheduled one by one."""
    raw = jobset("js", rj("w", 1, 2, 2, mode="Gang"))
    defaulting = loaded("a", "gang", matchConditions=[{"name": "m", "expression": "true"}], defaults={"queue": "q"})
    view = View(PolicySet(1, (defaulting,)))
    for named in (raw, stored(raw)):
        await PolicyAdmission(view).validate_or_refuse(asked(raw=named))
    await PolicyAdmission(view).set_defaults(asked(raw=raw))
    gangs = [review.gang for review in view.reviews]
    assert [gang["level"] for gang in gangs if gang is not None and not isinstance(gang, str)] == [
        "None",
        "ReplicatedJob",
        "ReplicatedJob",
    ]


@each(("reads", "planned"), [("object", False), ("gang", True)])
async def test_a_gang_is_planned_for_policies_that_read_it(reads: str, planned: bool) -> None:
    view = View(PolicySet(1, (loaded("a"), loaded("b", reads))))
    await PolicyAdmission(view).validate_or_refuse(asked())
    assert (view.reviews[0].gang is not None) is planned


async def test_an_elastic_jobset_may_become_smaller_than_its_minimum() -> None:
    gangs = '[{"name": "all", "replicatedJobs": ["w"], "minCount": 4}]'
    raw = jobset("js", rj("w", 1, 2, 2), annotations={"gangctl.dev/gangs": gangs})
    view = View(PolicySet(1, (loaded("a", "gang"),)))
    await PolicyAdmission(view).validate_or_refuse(asked("UPDATE", raw))
    await PolicyAdmission(view).validate_or_refuse(asked("CREATE", raw))
    updated, created = (review.gang for review in view.reviews)
    assert isinstance(updated, dict)
    assert isinstance(created, str)


async def test_without_policies_nothing_is_evaluated() -> None:
    view = View(known=None)
    assert (await PolicyAdmission(view).validate_or_refuse(asked())).allowed
    assert view.reviews == []


async def test_an_unknown_namespace_is_not_treated_as_unlabelled() -> None:
    view = View(PolicySet(1, (loaded("a"),)), known=None)
    refused = await PolicyAdmission(view).validate_or_refuse(asked())
    assert (refused.allowed, refused.code) == (False, 503)
    passed = await PolicyAdmission(view).validate_or_pass(asked())
    assert passed.allowed
    assert "namespace t has not been seen yet" in passed.warnings[0]
    assert view.reviews == []


@each(
    ("spec", "allowed"),
    (
        ({}, False),
        ({"failurePolicy": "Ignore"}, False),
        ({"matchConstraints": {"objectSelector": {"matchLabels": {"a": "b"}}}}, False),
        ({"matchConstraints": {"namespaceSelector": {"matchLabels": {"team": "b"}}}}, True),
        ({"validationActions": ["Warn"]}, True),
    ),
    ids=str,
)
async def test_what_is_too_large_to_be_read_is_a_violation(spec: dict[str, Any], allowed: bool) -> None:
    about = {"resourceRules": [{**JOBSET_RULES[0].model_dump(by_alias=True), "operations": ["UPDATE"]}]}
    spec = {**spec, "matchConstraints": {**about, **spec.get("matchConstraints", {})}}
    request = replace(asked("UPDATE"), object=None, old_object=None)
    handlers = PolicyAdmission(View(PolicySet(1, (loaded("a", **spec),)))).oversized()
    answer = await answered(handlers[VALIDATE_FAIL], request)
    assert answer.allowed is allowed
    unread = "GangPolicy 'a' denied request: the object cannot be evaluated: it has more than 200000 values"
    assert allowed or answer.message == unread


@each("selector", [{}, {"objectSelector": {"matchLabels": {"a": "b"}}}])
async def test_what_is_too_large_to_be_read_is_refused_by_a_broken_policy(selector: dict[str, Any]) -> None:
    view = View(PolicySet(1, broken=(broken("a", failurePolicy="Fail", matchConstraints=selector),)))
    assert not (await answered(PolicyAdmission(view).oversized()[VALIDATE_FAIL], unread())).allowed


def unread() -> AdmissionRequest:
    """A new object that is too large to be read."""
    return replace(asked(), object=None, old_object=None)


@each(
    ("failure_policy", "match", "allowed", "warnings"),
    (
        ("Fail", {}, False, 0),
        ("Fail", {"objectSelector": {"matchLabels": {"a": "b"}}}, False, 0),
        ("Fail", {"namespaceSelector": {"matchLabels": {"team": "b"}}}, True, 0),
        ("Ignore", {}, True, 1),
    ),
    ids=str,
)
async def test_what_is_too_large_to_be_read_gets_no_defaults(
    failure_policy: str, match: dict[str, Any], allowed: bool, warnings: int
) -> None:
    about = defaulting("a", failure_policy, queue="q", about=match)
    handlers = PolicyAdmission(View(PolicySet(1, (about,)))).oversized()
    answer = await answered(handlers[MUTATE_DEFAULTS], unread())
    assert (answer.allowed, answer.patch, len(answer.warnings)) == (allowed, (), warnings)
    why = "the object has more than 200000 values"
    assert all(why in text for text in (*answer.warnings, *([] if allowed else [answer.message])))
    assert allowed or (answer.code, answer.reason) == (422, "Invalid")


async def test_an_update_of_what_is_too_large_to_be_read_needs_no_defaults() -> None:
    handlers = PolicyAdmission(View(PolicySet(1, (defaulting("a", queue="q"),)))).oversized()
    answer = await answered(handlers[MUTATE_DEFAULTS], replace(unread(), operation="UPDATE"))
    assert (answer.allowed, answer.warnings) == (True, ())


async def test_defaults_of_what_is_too_large_to_be_read_require_a_known_namespace() -> None:
    handlers = PolicyAdmission(View(PolicySet(1, (defaulting("a", queue="q"),)), known=None)).oversized()
    assert (await answered(handlers[MUTATE_DEFAULTS], unread())).code == 503


async def answered(handler: Handler, request: AdmissionRequest) -> AdmissionResponse:
    answer = handler(request)
    return answer if isinstance(answer, AdmissionResponse) else await answer


async def test_a_policy_with_defaults_alone_denies_no_update() -> None:
    view = View(PolicySet(1, (conditional("Fail"),)))
    assert view.in_force.at_admission == ()
    assert (await PolicyAdmission(view).validate_or_refuse(asked("UPDATE"))).allowed
    assert not view.reviews


async def test_an_exported_policy_is_left_to_api_servers() -> None:
    view = View(PolicySet(1, (loaded("a"),), exported=frozenset({"a"})), known=None)
    assert (await PolicyAdmission(view).validate_or_refuse(asked())).allowed
    assert demand_of(view.in_force) == NeededWebhooks()


async def test_a_request_that_waited_is_evaluated_by_the_current_policies() -> None:
    parameter = {"metadata": {"name": "limits", "namespace": "t"}, "data": {"max": "3"}}
    reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
    new = loaded("b", "gang", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}, paramRef=reference)
    view = View(PolicySet(1, (loaded("a"),)), parameters=[parameter], meanwhile=PolicySet(2, (new,)))
    await PolicyAdmission(view).validate_or_refuse(asked())
    [review] = view.reviews
    assert review.gang is not None
    assert set(review.params) == {"b"}


async def test_a_broken_policy_with_failure_policy_ignore_gives_a_warning() -> None:
    policy = broken("b", failurePolicy="Ignore")
    finding = Finding("b", "spec", Result.ERROR, policy.reason)
    outcome = Outcome("b", matched=True, actions=frozenset({ValidationAction.DENY}), findings=(finding,))
    view = View(PolicySet(1, broken=(policy,)), (outcome,))
    answer = await PolicyAdmission(view).validate_or_pass(asked())
    assert answer.allowed
    assert answer.warnings == ("GangPolicy 'b' was left out: the policy cannot be used: why",)


async def test_violations_beyond_the_listed_ones_are_counted() -> None:
    findings = tuple(Finding("a", str(number), Result.FAIL, "x" * 2000) for number in range(300))
    outcome = Outcome(
        "a", matched=True, actions=frozenset({ValidationAction.DENY}), findings=findings, violations=findings
    )
    answer = await PolicyAdmission(View(PolicySet(1, (loaded("a"),)), (outcome,))).validate_or_refuse(asked())
    assert len(answer.causes) == 256
    assert answer.warnings == ("44 more violations are not listed",)


# What is registered


def rules(*operations: str) -> dict[str, Any]:
    rule = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": ["jobsets"]}
    return {"resourceRules": [{**rule, "operations": list(operations)}]}


@each(
    ("policies", "demand"),
    [
        ((), NeededWebhooks()),
        ((loaded("a"),), NeededWebhooks(frozenset({"CREATE"}))),
        (
            (loaded("a", failurePolicy="Ignore", matchConstraints=rules("DELETE")),),
            NeededWebhooks(ignore=frozenset({"DELETE"})),
        ),
        (
            (loaded("a", matchConstraints=rules("*")), loaded("b", failurePolicy="Ignore")),
            NeededWebhooks(frozenset({"CREATE", "UPDATE", "DELETE"}), frozenset({"CREATE"})),
        ),
        ((loaded("a", validationActions=["Warn", "Audit"]),), NeededWebhooks(ignore=frozenset({"CREATE"}))),
        ((broken("b", matchConstraints=rules("UPDATE"), failurePolicy="Fail"),), NeededWebhooks(frozenset({"UPDATE"}))),
        ((broken("b", matchConstraints=rules("UPDATE")),), NeededWebhooks(ignore=frozenset({"UPDATE"}))),
        (
            (broken("b", failurePolicy="Fail", validationActions=["Audit"]),),
            NeededWebhooks(ignore=frozenset({"CREATE"})),
        ),
    ],
)
def test_the_webhook_demand_follows_the_policies(
    policies: tuple[LoadedPolicy | BrokenPolicy, ...], demand: NeededWebhooks
) -> None:
    whole = tuple(each for each in policies if isinstance(each, LoadedPolicy))
    rest = tuple(each for each in policies if isinstance(each, BrokenPolicy))
    assert demand_of(PolicySet(1, whole, broken=rest)) == demand


def defaulting(name: str, failure_policy: str = "Fail", about: Any = None, **defaults: Any) -> LoadedPolicy:
    read = model(name, failurePolicy=failure_policy, defaults=defaults, validations=[], matchConstraints=about or {})
    return LoadedPolicy(name, read.spec, {}, native=False, programs=Programs())


@each(("policies", "wanted"), [(["Ignore"], "Ignore"), (["Ignore", "Fail"], "Fail")])
def test_the_failure_policy_of_defaults_is_the_strictest(policies: list[str], wanted: str) -> None:
    found = tuple(defaulting(f"p{number}", each, queue="q") for number, each in enumerate(policies))
    assert demand_of(PolicySet(1, found)) == NeededWebhooks(defaults=wanted)  # type: ignore[arg-type]  # one of both


# Defaults


async def test_defaults_are_applied_by_a_patch_at_create() -> None:
    view = View(PolicySet(1, (defaulting("a", queue="team"),)))
    answer = await PolicyAdmission(view).set_defaults(asked())
    assert "team" in str(answer.patch)
    assert view.reviews == []
    assert (await PolicyAdmission(view).set_defaults(asked("UPDATE"))).patch == ()


async def test_a_default_queue_can_depend_on_the_namespace() -> None:
    match = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    view = View(PolicySet(1, (defaulting("a", queues=[{"match": match, "queue": "team-a"}], queue="rest"),)))
    assert "team-a" in str((await PolicyAdmission(view).set_defaults(asked())).patch)
    view.known = {"metadata": {"name": "t", "labels": {"team": "b"}}}
    assert "rest" in str((await PolicyAdmission(view).set_defaults(asked())).patch)


async def test_defaults_are_those_of_the_policies_when_the_namespace_is_known() -> None:
    view = View(PolicySet(1, (conditional("Fail"),)), meanwhile=PolicySet(2, (defaulting("b", queue="new"),)))
    answer = await PolicyAdmission(view).set_defaults(asked())
    assert "new" in str(answer.patch)
    assert view.reviews == []


async def test_policies_that_disagree_are_both_named() -> None:
    view = View(PolicySet(1, (defaulting("a", queue="x"), defaulting("b", queue="y"))))
    answer = await PolicyAdmission(view).set_defaults(asked())
    assert (answer.allowed, answer.code) == (False, 422)
    assert "'a'" in answer.message
    assert "'b'" in answer.message
    assert len(answer.causes) == 1


CONDITIONS: Final = {"matchConditions": [{"name": "c", "expression": "true"}]}
PARAMETERS: Final = {
    "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    "paramRef": {"name": "limits", "parameterNotFoundAction": "Allow"},
}


def conditional(failure_policy: str, applies: dict[str, Any] = CONDITIONS) -> LoadedPolicy:
    read = model("a", failurePolicy=failure_policy, defaults={"queue": "team"}, validations=[], **applies)
    return LoadedPolicy("a", read.spec, {}, native=False, programs=Programs())


@each(("failure_policy", "allowed"), [("Fail", False), ("Ignore", True)])
async def test_a_condition_with_an_error_follows_the_failure_policy(failure_policy: str, allowed: bool) -> None:
    finding = Finding("a", "spec.matchConditions", Result.ERROR, "no such key")
    view = View(PolicySet(1, (conditional(failure_policy),)), (Outcome("a", matched=True, findings=(finding,)),))
    answer = await PolicyAdmission(view).set_defaults(asked())
    assert (answer.allowed, answer.patch) == (allowed, ())
    assert view.asked == {"a"}


async def test_defaults_of_a_policy_that_was_not_evaluated_are_left_out_with_a_warning() -> None:
    finding = Finding("a", "spec", Result.ERROR, "no process can evaluate it")
    view = View(PolicySet(1, (conditional("Ignore"),)), (Outcome("a", matched=True, findings=(finding,)),))
    answer = await PolicyAdmission(view).set_defaults(asked())
    assert (answer.allowed, answer.patch) == (True, ())
    assert answer.warnings == ("GangPolicy 'a' was left out: no process can evaluate it",)


async def test_defaults_are_left_out_where_an_exception_covers_an_error_of_the_conditions() -> None:
    finding = Finding("a", "spec.matchConditions", Result.EXEMPT, "no such key", error="NoSuchKey", exception="e")
    view = View(PolicySet(1, (conditional("Fail"),)), (Outcome("a", matched=True, findings=(finding,)),))
    answer = await PolicyAdmission(view).set_defaults(asked())
    assert (answer.allowed, answer.patch) == (True, ())


@each("applies", [CONDITIONS, PARAMETERS])
@each("matched", [True, False])
async def test_conditions_and_parameters_decide_about_defaults(matched: bool, applies: dict[str, Any]) -> None:
    view = View(PolicySet(1, (conditional("Fail", applies),)), (Outcome("a", matched=matched),))
    assert bool((await PolicyAdmission(view).set_defaults(asked())).patch) is matched
    assert view.asked == {"a"}


async def test_defaults_require_a_known_namespace() -> None:
    closed, opened = (
        View(PolicySet(1, (defaulting("a", each, queue="q"),)), known=None) for each in ("Fail", "Ignore")
    )
    assert (await PolicyAdmission(closed).set_defaults(asked())).code == 503
    passed = await PolicyAdmission(opened).set_defaults(asked())
    assert (passed.allowed, passed.patch, len(passed.warnings)) == (True, (), 1)
