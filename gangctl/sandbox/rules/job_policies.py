"""Pod failure policy, success policy and replacement policy of Jobs."""

from __future__ import annotations

from typing import Final

from gangctl.sandbox.errors import Cause
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules.causes import Causes

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_MAX_RULES: Final = 20


def validate_policies(spec: Object, causes: Causes) -> None:
    """Check the three policies of a Job's spec."""
    if "podFailurePolicy" in spec:
        _pod_failure(spec["podFailurePolicy"].get("rules", []), "spec.podFailurePolicy.rules", causes)
    if "successPolicy" in spec:
        if spec.get("completionMode") != "Indexed":
            causes.invalid("spec.successPolicy", spec["successPolicy"], "requires indexed completion mode")
        elif not spec["successPolicy"].get("rules"):
            causes.required(
                "spec.successPolicy.rules", "at least one rules must be specified when the successPolicy is specified"
            )
    _replacement(spec, causes)


def _pod_failure(rules: list[Object], path: str, causes: Causes) -> None:
    if len(rules) > _MAX_RULES:
        causes.too_many(path, len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        where = f"{path}[{index}]"
        action = rule.get("action", "")
        if not action:
            causes.required(f"{where}.action", f"valid values: {list(_ACTIONS)!r}".replace("'", '"'))
        elif action not in _ACTIONS:
            causes.unsupported(f"{where}.action", action, _ACTIONS)
        codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions")
        if codes is None and not patterns:
            told = "Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
            causes.append(Cause("FieldValueInvalid", where, told))
        elif codes is not None and patterns:
            told = "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"
            causes.append(Cause("FieldValueInvalid", where, told))
        if codes is not None and codes.get("operator") not in _OPERATORS:
            causes.unsupported(f"{where}.onExitCodes.operator", codes.get("operator", ""), _OPERATORS)


def _replacement(spec: Object, causes: Causes) -> None:
    policy, path = spec.get("podReplacementPolicy"), "spec.podReplacementPolicy"
    if "podFailurePolicy" in spec:
        if policy != "Failed":
            causes.unsupported(path, policy, ("Failed",))
    elif policy not in {"Failed", "TerminatingOrFailed"}:
        causes.unsupported(path, policy, ("Failed", "TerminatingOrFailed"))
