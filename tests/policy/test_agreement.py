"""``gangctl policy eval``, the webhooks and the background scan give the same verdict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from gangctl.api import jsonpatch
from gangctl.api.objects import Object
from gangctl.cli.policy.requests import as_admitted
from gangctl.evaluation.evaluator import PolicyEvaluator
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.fit.report import FitReport
from gangctl.gang.resolve import ClusterRules
from gangctl.manager.policies import ReplicaScanView
from gangctl.policy.loaded import PolicySet, load_exception
from gangctl.policy.review import Review
from gangctl.policy.variables import unknown_fit
from gangctl.policy.verdict import Outcome, merge, show
from gangctl.webhooks.configurations import Endpoint, WebhookSettings
from gangctl.webhooks.policies import PolicyAdmission, annotation_key
from gangctl.webhooks.review import AdmissionResponse, decode_review
from tests.cli.policy.policies import QUEUE, config_map, exception, files, namespace, policy, rule
from tests.cli.run import gangctl
from tests.gang.pipeline import stored as stamped
from tests.jobsets import jobset, rj
from tests.policy.reviews import Catalogue

NAMES = ("large", "plain", "refused", "small")


def size(name: str, found_by: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """At most as many pods as in the parameters."""
    reference = {"parameterNotFoundAction": "Deny", **found_by}
    return policy(
        name,
        {
            "name": "pods",
            "expression": "variables.pods <= int(params.data.pods)",
            "messageExpression": "string(variables.pods) + ' pods, at most ' + params.data.pods",
            "reason": "Forbidden",
        },
        variables=[{"name": "pods", "expression": "gang == null ? 0 : gang.totalPods"}],
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        paramRef=reference,
        **spec,
    )


GANGS_ONLY = [{"name": "gangs", "expression": "gang != null && gang.gangedPods > 0"}]
POLICIES = [
    size("by-label", {"selector": {"matchLabels": {"limits": "yes"}}}, validationActions=["Warn", "Audit"]),
    size("by-name", {"name": "limits"}),
    size("elsewhere", {"name": "limits", "namespace": "other"}, failurePolicy="Ignore"),
    size("nowhere", {"name": "nothing"}, validationActions=["Audit"], failurePolicy="Ignore"),
    policy("given", rule(f"object.metadata.labels['{QUEUE}'] == 'research'", "queue"), defaults={"queue": "research"}),
    policy(
        "given-to-gangs",
        matchConditions=GANGS_ONLY,
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        paramRef={"name": "nothing", "parameterNotFoundAction": "Deny"},
        failurePolicy="Ignore",
        defaults={"priorityClass": "high"},
    ),
    policy(
        "conditional",
        rule("object.metadata.name != 'large'", message="no such name"),
        matchConditions=GANGS_ONLY,
        auditAnnotations=[{"key": "pods", "valueExpression": "string(gang.totalPods)"}],
    ),
    policy("failing", rule("object.spec.nothing == 1"), validationActions=["Warn"]),
    policy("failing-open", rule("object.spec.nothing == 1"), failurePolicy="Ignore"),
    policy(
        "gold-only",
        rule("namespaceObject.metadata.labels.tier == 'silver'", message="gold does not do this"),
        matchConstraints={"namespaceSelector": {"matchLabels": {"tier": "gold"}}},
        validationActions=["Warn"],
    ),
    policy("others", rule("false"), matchConstraints={"objectSelector": {"matchLabels": {"team": "b"}}}),
]
EXCEPTIONS = [
    exception("small-ones", "by-name", "pods", names=["small"]),
    exception("ended", "by-name", expires="2020-01-01T00:00:00Z"),
    exception("any-queue", "given", "queue", names=["ref*"]),
]
PARAMETERS = [
    {**config_map("limits", "t", pods="1"), "metadata": {"name": "limits", "namespace": "t", "labels": {}}},
    {**config_map("a", "t", pods="2"), "metadata": {"name": "a", "namespace": "t", "labels": {"limits": "yes"}}},
    {**config_map("b", "t", pods="one"), "metadata": {"name": "b", "namespace": "t", "labels": {"limits": "yes"}}},
    config_map("limits", "other", pods="9"),
]
NAMESPACE = namespace("t", tier="gold")
NAMESPACE["metadata"]["labels"]["kubernetes.io/metadata.name"] = "t"


def _subject(name: str) -> dict[str, Any]:
    mode = None if name == "plain" else "Gang"
    pods = {"large": 4, "small": 2}.get(name, 1)
    raw = jobset(name, rj("w", 1, pods, pods), mode=mode) if mode else jobset(name, rj("w", 1, pods, pods))
    if name == "refused":
        raw["metadata"]["labels"] = {QUEUE: "other"}
    return raw


def outcome_of(outcome: Outcome) -> dict[str, Any]:
    """What is compared of an outcome: all but what it cost."""
    return {
        "policy": outcome.policy,
        "matched": outcome.matched,
        "skipped": outcome.skipped,
        "actions": sorted(each.value for each in outcome.actions),
        "rules": [
            {
                "policy": each.policy,
                "rule": each.rule,
                "result": each.result.value,
                "message": each.message,
                "reason": each.reason,
                "params": each.params,
                "error": each.error,
                "exception": each.exception,
            }
            for each in outcome.findings
        ],
    }


@dataclass
class View:
    """What webhooks and scan know, of a policy evaluator that is admission's."""

    evaluator: PolicyEvaluator
    outcomes: tuple[Outcome, ...] = ()

    @property
    def in_force(self) -> PolicySet:
        return self.evaluator.policies

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue(*PARAMETERS)

    def cluster_rules(self) -> ClusterRules:
        return ClusterRules()

    def fit(self, raw: Object, namespace: str, *, new: bool = True) -> FitReport:  # noqa: ARG002
        return unknown_fit(raw, namespace, ["nobody was asked"])

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def namespace(self, name: str) -> Object | None:
        return NAMESPACE if name == "t" else None

    async def evaluate(self, review: Review, policies: Collection[str] | None = None) -> tuple[Outcome, ...]:
        self.outcomes = await self.evaluator.evaluate(review, policies)
        return self.outcomes


@asynccontextmanager
async def in_force() -> AsyncIterator[View]:
    """Evaluated on this loop, with the ordinary budgets."""
    options = EvaluatorOptions(ahead=False, slice_seconds=60.0)
    async with PolicyEvaluator(options) as evaluator:
        loaded = tuple(
            [await evaluator.load(each) for each in sorted(POLICIES, key=lambda each: each["metadata"]["name"])]
        )
        await evaluator.install(PolicySet(1, loaded, exceptions=tuple(map(load_exception, EXCEPTIONS))))
        yield View(evaluator)


def request_for(raw: Object) -> bytes:
    """The AdmissionReview that the API server sends."""
    group, _, version = str(raw["apiVersion"]).partition("/")
    kind = {"group": group, "version": version, "kind": "JobSet"}
    resource = {"group": group, "version": version, "resource": "jobsets"}
    request = {
        "uid": "u",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": raw["metadata"]["name"],
        "namespace": "t",
        "operation": "CREATE",
        "userInfo": {"username": "kubernetes-admin"},
        "object": raw,
        "oldObject": None,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


async def admitted(view: View, raw: dict[str, Any]) -> tuple[AdmissionResponse, dict[str, Any]]:
    """What the webhooks answer one after the other, and the JobSet that the first one made."""
    stored = as_admitted(raw).obj
    given = await PolicyAdmission(view).set_defaults(decode_review(request_for(stored)))
    assert given.allowed, given.message
    stored = as_admitted(jsonpatch.apply(stored, [dict(each) for each in given.patch])).obj
    # As the webhook for gangs, which comes next, leaves it.
    stored = stamped(stored)
    return await PolicyAdmission(view).validate_or_refuse(decode_review(request_for(stored))), stored


def given(raw: dict[str, Any], stored: dict[str, Any]) -> set[str]:
    """The fields that policies have filled in."""
    before, after = (each["metadata"].get("labels") or {} for each in (raw, stored))
    return {f"metadata.labels[{key}]" for key in after.keys() - before.keys()}


async def scanned(view: View, stored: dict[str, Any]) -> list[dict[str, Any]]:
    """The verdict of the background scan."""
    scan_view = ReplicaScanView(view, lambda: POLICIES, WebhookSettings(Endpoint(url="https://gangctl.example")))
    outcomes = await scan_view.evaluate(stored)
    assert outcomes is not None
    return [outcome_of(each) for each in merge(outcomes).outcomes]


def told_by_cli(directory: Path) -> dict[str, Any]:
    """The verdicts of ``gangctl policy eval``, by JobSet."""
    paths = files(
        directory,
        policies=[*POLICIES, *EXCEPTIONS],
        params=PARAMETERS,
        subjects=[_subject(name) for name in NAMES],
        namespaces=[NAMESPACE],
    )
    given = ("--policy", paths["policies"], "--params", paths["params"], "--namespace-object", paths["namespaces"])
    answer = gangctl("policy", "eval", *given, "-f", paths["subjects"], "-o", "yaml")
    assert answer.code == 1, answer.err
    return {each["metadata"]["name"]: each for each in answer.documents}


def test_the_command_the_webhooks_and_the_scan_agree(tmp_path: Path) -> None:
    reported = told_by_cli(tmp_path)

    async def compare() -> None:
        async with in_force() as view:
            for name in NAMES:
                answer, stored = await admitted(view, _subject(name))
                by_webhook = [outcome_of(each) for each in merge(view.outcomes).outcomes]
                by_command = [{k: v for k, v in each.items() if k != "steps"} for each in reported[name]["policies"]]
                assert by_webhook == by_command, name
                verdict = merge(view.outcomes)
                assert given(_subject(name), stored) == {each["field"] for each in reported[name]["defaults"]}, name
                # Existing JobSets get no defaults.
                evaluating = [each for each in by_command if each["policy"] != "given-to-gangs"]
                assert await scanned(view, stored) == evaluating, name
                assert (answer.allowed, list(answer.warnings)) == (
                    reported[name]["allowed"],
                    reported[name]["warnings"],
                )
                assert answer.message == reported[name]["message"]
                assert answer.allowed or (answer.code, show(verdict.denials[0])) == (
                    reported[name]["code"],
                    answer.message,
                )
                notes = {annotation_key(key): value for key, value in reported[name]["auditAnnotations"].items()}
                assert answer.audit_annotations == notes

    asyncio.run(compare())
    seen = {each["result"] for verdict in reported.values() for one in verdict["policies"] for each in one["rules"]}
    assert seen == {"pass", "fail", "error", "exempt"}, "a comparison of little"
    assert {name: reported[name]["allowed"] for name in NAMES} == {
        "large": False,
        "plain": True,
        "refused": True,
        "small": True,
    }
