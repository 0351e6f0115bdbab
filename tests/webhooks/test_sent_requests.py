"""README: "JobSets that ask for no gang never reach it", by rules and matchConditions in the API server."""

from __future__ import annotations

from typing import Any, Final

from gangctl.apiserver.expressions import MatchConditions
from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_configurations
from tests.gang.pipeline import child_job, stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each

Object = dict[str, Any]

SETTINGS: Final = WebhookSettings(Endpoint(url="https://127.0.0.1:9443"))
CONFIGURATIONS: Final = build_configurations(SETTINGS, b"")
QUEUE: Final = {"kueue.x-k8s.io/queue-name": "team"}
SCHEDULING: Final[dict[str, Any]] = {"scheduling": {"schedulingPolicy": {"gang": {}}}}


def labelled(raw: Object) -> Object:
    return {**raw, "metadata": {**raw["metadata"], "labels": QUEUE}}


NO_GANG: Final = {
    "plain": jobset("js", rj("a", 2, 2, 2), rj("b"), uid=FIXTURE_UID),
    "for a queue": labelled(jobset("js", rj("a"), suspend=True, uid=FIXTURE_UID)),
    "of others' annotations": jobset(
        "js",
        rj("a", annotations={"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}),
        annotations={"gangctl.example.com/gang-mode": "Gang"},
        uid=FIXTURE_UID,
    ),
    "that schedules natively": jobset("js", rj("a"), **SCHEDULING, uid=FIXTURE_UID),
}
GANG: Final = jobset("js", rj("a", 2, 2, 2), mode="Gang", uid=FIXTURE_UID)


def asked(resource: str, operation: str, obj: Object, old: Object | None = None) -> list[str]:
    """The kinds of the configurations of which a webhook is called."""
    request = {"object": obj, "oldObject": old, "request": {"operation": operation}}
    return [
        configuration["kind"]
        for configuration in CONFIGURATIONS
        for webhook in configuration["webhooks"]
        for rule in webhook["rules"]
        if resource in rule["resources"]
        and operation in rule["operations"]
        and MatchConditions(webhook["matchConditions"]).hold(request)
    ]


@each("case", NO_GANG)
def test_jobsets_without_a_gang_are_not_sent(case: str) -> None:
    raw = NO_GANG[case]
    status = {**raw, "status": {"restarts": 1, "conditions": [{"type": "Completed", "status": "True"}]}}
    assert asked("jobsets", "CREATE", raw) == []
    assert asked("jobsets", "UPDATE", {**raw, "spec": {**raw["spec"], "suspend": True}}, raw) == []
    assert asked("jobsets", "UPDATE", status, raw) == []


@each("case", NO_GANG)
def test_jobs_of_jobsets_without_a_gang_are_not_sent(case: str) -> None:
    job = child_job(NO_GANG[case], 0, 0)
    assert asked("jobs", "CREATE", job) == []
    assert asked("jobs", "UPDATE", {**job, "status": {"active": 1}}, job) == []


def test_pods_and_deletions_are_not_sent_to_gangctl() -> None:
    rules = [
        rule for configuration in CONFIGURATIONS for webhook in configuration["webhooks"] for rule in webhook["rules"]
    ]
    policies = {"gangpolicies", "gangpolicyexceptions"}
    assert {resource for rule in rules for resource in rule["resources"]} == {"jobsets", "jobs", *policies}
    assert {operation for rule in rules for operation in rule["operations"]} == {"CREATE", "UPDATE"}


def test_the_same_jobset_with_a_gang_is_sent() -> None:
    assert asked("jobsets", "CREATE", GANG) == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    plain = NO_GANG["plain"]
    both = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    assert asked("jobsets", "UPDATE", GANG, plain) == [*both, both[1]], "the second warns of keys"
    assert asked("jobsets", "UPDATE", plain, GANG) == both
    assert asked("jobs", "CREATE", child_job(stored(GANG), 0, 0)) == ["MutatingWebhookConfiguration"]
