"""What doctor says of webhooks that are registered otherwise, or not: verdicts and remedies."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cli.doctor.check import CheckVerdict
from tests.cli.doctor.health import (
    Object,
    asked,
    edited,
    healthy,
    others,
    own,
)
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
