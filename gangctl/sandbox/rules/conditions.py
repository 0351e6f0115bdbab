"""``metav1.Condition`` lists in a status."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes

_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"


def validate_conditions(conditions: Sequence[Object], path: str, causes: Causes) -> None:
    """Check conditions at ``path``."""
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where, kind = f"{path}[{index}]", condition.get("type", "")
        if not kind:
            causes.required(f"{where}.type")
        else:
            causes.invalid_each(f"{where}.type", kind, names.qualified_name(kind))
            if kind in seen:
                causes.duplicate(f"{where}.type", kind)
            seen.add(kind)
        if condition.get("status", "") not in _STATUSES:
            causes.unsupported(f"{where}.status", condition.get("status", ""), _STATUSES)
        if not condition.get("lastTransitionTime"):
            causes.required(f"{where}.lastTransitionTime")
        reason = condition.get("reason", "")
        if not reason:
            causes.required(f"{where}.reason")
        elif re.fullmatch(_REASON, reason) is None:
            told = (
                "a condition reason must start with alphabetic character, optionally followed by a string of "
                "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' "
                f"(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', "
                f"regex used for validation is '{_REASON}')"
            )
            causes.invalid(f"{where}.reason", reason, told)
