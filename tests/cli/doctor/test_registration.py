"""What doctor says of webhooks that are registered otherwise, or not: verdicts and remedies."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cli.doctor.check import CheckVerdict
from gangctl.cli.doctor.checks.jobset import DryRun
from tests.cli.doctor.health import NOT_READ, Object, asked, edited, healthy, others, own
from tests.rows import each

HOSTILE: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


FIELDS: Final = (
    "clientConfig",
    "matchConditions",
    "namespaceSelector",
    "rules",
    "name",
    "failurePolicy",
    "objectSelector",
)


@given(st.sampled_from(FIELDS), HOSTILE)
def test_hostile_fields_of_a_webhook_cause_no_error(field: str, value: object) -> None:
    facts = healthy(configurations=edited(lambda hook: hook.update({field: value})))
    for check in ("gangctl-webhooks", "gangctl-authority", "webhook-order", "gangctl-replicas", "jobset-webhooks"):
        assert asked(check, facts).verdict in CheckVerdict


HELM: Final = {"meta.helm.sh/release-name": "gangs", "meta.helm.sh/release-namespace": "gangctl-system"}
UPGRADE: Final = "helm upgrade gangs charts/gangctl --namespace gangctl-system --reuse-values --force-conflicts"


@each(
    ("annotations", "back", "command"),
    [
        ({}, "apply the installation again (kubectl apply -k", "gangctl install --image IMAGE | kubectl apply -f -"),
        (HELM, "upgrade the Helm release with the same values", UPGRADE),
        ({**HELM, "meta.helm.sh/release-name": "a; b"}, "apply the installation again", "gangctl install --image"),
        ({"gangctl.dev/configuration": "0"}, "gangctl controller repairs them within seconds", "kubectl get mutating"),
    ],
)
@pytest.mark.parametrize("situation", ["deleted", "ignored"])
def test_the_remedy_after_break_glass_is_that_of_the_installation(
    annotations: Object, back: str, command: str, situation: str
) -> None:
    found = own(failure_policy="Ignore") if situation == "ignored" else own()[:2]
    for configuration in found:
        configuration["metadata"]["annotations"] = annotations
    outcome = asked("gangctl-webhooks", healthy(configurations=(*found, *others())))
    assert outcome.verdict is (CheckVerdict.WARNING if situation == "ignored" else CheckVerdict.FAILED)
    assert back in outcome.remedy
    assert outcome.command.startswith(command)


def test_an_invalid_namespace_selector_fails() -> None:
    odd = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": 7}, 3]}
    facts = healthy(configurations=edited(lambda hook: hook.update(namespaceSelector=odd)))
    assert asked("gangctl-webhooks", facts).verdict is CheckVerdict.FAILED


def unanswered(webhook: str, url: str) -> DryRun:
    """In the words of API servers."""
    reason = f'failed to call webhook: Post "{url}?timeout=10s": dial tcp 10.0.0.1:443: connect: connection refused'
    return DryRun(refusal=f'Internal error occurred: failed calling webhook "{webhook}": {reason}')


@each(
    ("webhook", "service", "verdict"),
    [
        ("mjobset.kb.io", "jobset-webhook-service.jobset-system", CheckVerdict.FAILED),
        # Kueue's webhooks for JobSets have the names of JobSet's.
        ("mjobset.kb.io", "kueue-webhook-service.kueue-system", CheckVerdict.OK),
        ("validate.kyverno.svc-fail", "kyverno-svc.kyverno", CheckVerdict.OK),
        ("jobsets.gangs.gangctl.dev", "gangctl-webhook.gangctl-system", CheckVerdict.OK),
    ],
)
def test_a_webhook_that_does_not_answer_is_known_by_its_address(
    webhook: str, service: str, verdict: CheckVerdict
) -> None:
    refused = unanswered(webhook, f"https://{service}.svc:443/mutate")
    assert asked("jobset-webhooks", healthy(dry_run=refused)).verdict is verdict
    unseen = asked("jobset-webhooks", healthy(dry_run=refused, endpoints=NOT_READ))
    assert unseen.verdict is (verdict if verdict is CheckVerdict.FAILED else CheckVerdict.UNKNOWN)


@each(("host", "fails"), [("jobset:9443", True), ("kueue:9443", False)])
def test_a_webhook_that_does_not_answer_is_known_by_its_url(host: str, fails: bool) -> None:
    by_url = others()
    for configuration in by_url:
        owner = "jobset" if configuration["metadata"]["name"].startswith("jobset") else "kueue"
        configuration["webhooks"][0]["clientConfig"] = {"url": f"https://{owner}:9443/mutate", "caBundle": "Y2E="}
    refused = unanswered("mjobset.kb.io", f"https://{host}/mutate")
    outcome = asked("jobset-webhooks", healthy(configurations=(*own(), *by_url), dry_run=refused))
    assert (outcome.verdict is CheckVerdict.FAILED) is fails
