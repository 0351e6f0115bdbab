"""The webhook configurations for policies, as data: they follow the needs of the policies.

No policy, no webhook: a cluster without GangPolicies never waits for gangctl here. An operation of some policy with
failurePolicy Fail is sent to the entry that fails with gangctl, one of policies with Ignore alone to the other. Never
to both: each entry evaluates all policies, so that one answer holds every violation, the first policy by name leads it,
and nothing is evaluated twice. gangctl itself decides which objects a policy matches (its selectors and
matchConditions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gangctl.webhooks.configurations import JOBSETS, KINDS, FailurePolicy, WebhookSettings, configuration, rule
from gangctl.webhooks.configurations import namespace_selector as whose

POLICIES: Final = "gangctl-policies"
DEFAULTS: Final = "gangctl-defaults"
"""Sorts before ``gangctl-gangs``, which resolves a gang mode that a default has set."""

VALIDATE_FAIL: Final = "/validate/policies/fail"
VALIDATE_IGNORE: Final = "/validate/policies/ignore"
MUTATE_DEFAULTS: Final = "/mutate/defaults"

OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE")
"""The operations on JobSets, in the order in which configurations name them."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The webhooks that policies need: operations by failurePolicy, and whether any sets defaults.

    ``defaults`` is None without such a policy, ``Fail`` if one of them has that: a gang mode or queue cannot be added
    after the creation of the JobSet, so the strictest author decides.
    """

    fail: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    defaults: FailurePolicy | None = None


def build_policy_configurations(settings: WebhookSettings, demand: Demand, ca_bundle: bytes) -> list[dict[str, Any]]:
    """The mutating and the validating configuration; one that is not needed has no webhooks."""
    defaults, policies = [], []
    if demand.defaults is not None:
        hook = _webhook(settings, "defaults.gangctl.dev", MUTATE_DEFAULTS, ["CREATE"], ca_bundle)
        # Changes by later webhooks are not defaulted again: the object's own value wins, from any source.
        defaults.append({**hook, "failurePolicy": demand.defaults, "reinvocationPolicy": "Never"})
    entries: tuple[tuple[FailurePolicy, str, frozenset[str]], ...] = (
        ("Fail", VALIDATE_FAIL, demand.fail),
        ("Ignore", VALIDATE_IGNORE, demand.ignore - demand.fail),
    )
    for failure_policy, path, wanted in entries:
        operations = [each for each in OPERATIONS if each in wanted]
        if operations:
            name = f"{failure_policy.lower()}.policies.gangctl.dev"
            hook = _webhook(settings, name, path, operations, ca_bundle)
            policies.append({**hook, "failurePolicy": failure_policy})
    return [configuration(KINDS[0], DEFAULTS, defaults), configuration(KINDS[1], POLICIES, policies)]


def _webhook(
    settings: WebhookSettings, name: str, path: str, operations: Sequence[str], ca_bundle: bytes
) -> dict[str, Any]:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": settings.endpoint.client_config(path, ca_bundle),
        "matchPolicy": "Equivalent",
        "namespaceSelector": whose(settings),
        # Not its subresources: the JobSet controller writes there, not a user.
        "rules": [rule(JOBSETS, operations)],
        "sideEffects": "None",
        "timeoutSeconds": settings.timeout_seconds,
    }
