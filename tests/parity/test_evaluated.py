"""gangctl gives the answers of kube-apiserver, by native policies and by the GangPolicies that say the same."""

import pytest

from gangctl.policy.native import load_native
from tests.parity import public
from tests.parity.corpus import CASES
from tests.parity.evaluated import evaluate
from tests.parity.policies import native_policy
from tests.parity.recorded import NotRecordedError, recorded
from tests.rows import each


@pytest.mark.parametrize("topic", CASES)
def test_gangctl_gives_the_recorded_answer_of_the_server(topic: str) -> None:
    known = recorded()
    answers = {expression: evaluate(expression) for expression in CASES[topic]}
    differing = {
        expression: f"{exported.verdict}, as a GangPolicy {own.verdict}, not {known[expression].verdict}"
        for expression, (exported, own) in answers.items()
        if not exported.verdict == own.verdict == known[expression].verdict
    }
    assert differing == {}


def test_an_expression_without_an_answer_names_the_command_that_asks() -> None:
    with pytest.raises(NotRecordedError, match=r"asked about 1 == 2: run python -m tests\.parity record"):
        recorded()["1 == 2"]


def test_every_public_policy_is_recorded() -> None:
    assert list(public.recorded()) == list(public.public()), "the policies have changed: python -m tests.parity record"


@each("name", public.public())
def test_gangctl_gives_the_recorded_verdicts_on_public_policies(name: str) -> None:
    case = public.public()[name]
    native = native_policy(name, case.spec, name)
    assert native.own is not None
    known = public.recorded()[name]
    (exported,) = load_native(native[:2])
    assert public.evaluated(case, exported) == known
    assert public.evaluated(case, native.own) == known
