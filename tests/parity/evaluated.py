"""The answers of gangctl to expressions about the sample: its check and its evaluation."""

import time
from collections.abc import Mapping
from typing import Any, Final

from gangctl.cel.check import check
from gangctl.cel.environments import admission
from gangctl.cel.evaluation.conversions import plain
from gangctl.cel.faults import CompileError, EvalError
from gangctl.cel.meter import StepMeter
from gangctl.cel.program import compile_expression
from tests.parity.corpus import SAMPLE
from tests.parity.outcomes import Outcome
from tests.parity.recorded import MINOR

_KIND: Final = {"group": "parity.gangctl.dev", "version": "v1", "kind": "Sample"}
_RESOURCE: Final = {"group": "parity.gangctl.dev", "version": "v1", "resource": "samples"}
REQUEST: Final[Mapping[str, Any]] = {
    "kind": _KIND,
    "resource": _RESOURCE,
    "requestKind": _KIND,
    "requestResource": _RESOURCE,
    "name": "sample",
    "namespace": "parity",
    "operation": "CREATE",
    "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
    "dryRun": True,
    "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
}

NAMESPACE: Final[Mapping[str, Any]] = {
    "metadata": {
        "name": "parity",
        "uid": "5b3c2f5e-4c1f-4a1c-9d0a-0a6f2f6a8f11",
        "resourceVersion": "300",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"kubernetes.io/metadata.name": "parity"},
    },
    "spec": {"finalizers": ["kubernetes"]},
    "status": {"phase": "Active"},
}
"""``namespaceObject``, of whatever name."""


def evaluate(expression: str) -> Outcome:
    """The outcome of one expression, in the words of what is recorded."""
    try:
        checked = check(expression, admission(params=False, minor=MINOR))
        if checked.type.name != "bool":
            return Outcome("refused", f"must evaluate to bool but got {checked.type}")
        program = compile_expression(checked)
    except CompileError as error:
        return Outcome("refused", f"{error.kind}: {error.message}")
    values = {"object": SAMPLE, "oldObject": None, "request": REQUEST, "namespaceObject": NAMESPACE}
    try:
        value = plain(program.evaluate(values, {}, StepMeter.request(time.monotonic)))
    except EvalError as error:
        return Outcome(error.kind.value, error.message)
    return Outcome(str(value).lower())
