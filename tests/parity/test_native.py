"""What is recorded is what kube-apiserver answers."""

import pytest

from tests.controlplane.plane import ControlPlane
from tests.parity import public
from tests.parity.corpus import cases
from tests.parity.native import ask
from tests.parity.recorded import recorded

pytestmark = pytest.mark.controlplane


async def test_the_server_answers_what_is_recorded(plane_1_37: ControlPlane, namespace: str) -> None:
    expressions = [expression for _, expression in cases()]
    outcomes = await ask(plane_1_37.api, namespace, expressions)
    known = recorded()
    assert list(known) == expressions, "the corpus has changed: python -m tests.parity record"
    differing = {e: (known[e], outcomes[e]) for e in expressions if known[e].verdict != outcomes[e].verdict}
    assert not differing


async def test_the_server_gives_the_recorded_verdicts(plane_1_37: ControlPlane, namespace: str) -> None:
    answers, known = await public.ask(plane_1_37.api, namespace), public.recorded()
    differing = {name: (known[name], answers[name]) for name in answers if known[name] != answers[name]}
    assert not differing
