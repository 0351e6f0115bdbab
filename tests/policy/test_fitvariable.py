"""``fit``: a variable with the fields of ``gangctl fit -o json``, and its value if the verdict is unknown."""

from __future__ import annotations

import pytest

from gangctl.cel.types import BOOL, INT, STRING
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import PolicyError
from gangctl.policy.variables import FIT_TYPE, unknown_fit
from tests.jobsets import jobset, rj
from tests.policy.reviews import created, evaluated, rules
from tests.policy.test_gangvariable import fits

NEVER = "fit.verdict != 'never'"


def test_the_type_is_that_of_the_report() -> None:
    fields = FIT_TYPE.fields
    assert fields is not None
    assert (fields["verdict"], fields["blocking"]) == (STRING, BOOL)
    limits = fields["limits"].parameters[0].fields
    assert limits is not None
    assert limits["missing"] == INT
    assert fits(unknown_fit(jobset("js", rj("w")), "t", ["nobody was asked"]), FIT_TYPE)


def test_a_policy_can_refuse_a_jobset_that_never_fits() -> None:
    policy = rules(NEVER)
    unknown = unknown_fit(jobset("js", rj("w")), "t", ["nobody was asked"])
    assert len(evaluated(policy, created(fit={**unknown, "verdict": "never"})).violations) == 1
    assert evaluated(policy, created(fit=unknown)).violations == ()
    assert unknown["message"] == "It is not known whether this JobSet can be admitted: nobody was asked."


def test_unknown_fields_of_fit_are_refused_at_load() -> None:
    with pytest.raises(PolicyError, match="verdikt"):
        load_policy(rules("fit.verdikt == ''"))
