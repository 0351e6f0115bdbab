"""The verdict of gangctl on one object by one policy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from gangctl.cel.meter import StepMeter
from gangctl.cli.policy.requests import FileCatalogue, RequestSetting, request_of
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.verdict import Outcome
from tests.policies.pack import Object

_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def evaluated(policy: Object, obj: Object, params: Sequence[Object] = ()) -> Outcome:
    """The outcome of creating the object."""
    return evaluated_by(load_policy(policy), obj, params)


def evaluated_by(loaded: LoadedPolicy, obj: Object, params: Sequence[Object] = ()) -> Outcome:
    """The same by a policy that is loaded."""
    setting = RequestSetting(now=_NOW)
    review, _ = request_of(obj, "CREATE", setting, [loaded], FileCatalogue(list(params)))
    # Time stands still: steps are bounded as at admission, and how fast the machine is does not matter.
    return Evaluation(review).evaluate(loaded, StepMeter.request(lambda: 0.0))
