"""What is recorded is what kube-apiserver answers."""

from collections.abc import Sequence
from typing import Final

import pytest

from tests.controlplane.plane import ControlPlane
from tests.parity import public
from tests.parity.corpus import cases
from tests.parity.native import ask
from tests.parity.outcomes import Outcome
from tests.parity.recorded import recorded

pytestmark = pytest.mark.controlplane

EXPRESSIONS: Final = [expression for _, expression in cases()]
EVERY: Final = 8
"""One of so many is asked about in the first tier, of every topic at least one."""


async def differing(
    plane: ControlPlane, namespace: str, expressions: Sequence[str]
) -> dict[str, tuple[Outcome, Outcome]]:
    """What is recorded and what the server answers, where that is not the same."""
    outcomes, known = await ask(plane.api, namespace, expressions), recorded()
    return {e: (known[e], outcomes[e]) for e in expressions if known[e].verdict != outcomes[e].verdict}


async def test_the_server_answers_what_is_recorded_of_a_sample(plane_1_37: ControlPlane, namespace: str) -> None:
    assert list(recorded()) == EXPRESSIONS, "the corpus has changed: python -m tests.parity record"
    assert not await differing(plane_1_37, namespace, EXPRESSIONS[::EVERY])


@pytest.mark.full("each answer was a server's when it was recorded; the first tier asks for some of them again")
async def test_the_server_answers_what_is_recorded(plane_1_37: ControlPlane, namespace: str) -> None:
    assert not await differing(plane_1_37, namespace, EXPRESSIONS)


async def test_the_server_gives_the_recorded_verdicts(plane_1_37: ControlPlane, namespace: str) -> None:
    answers, known = await public.ask(plane_1_37.api, namespace), public.recorded()
    assert not {name: (known[name], answers[name]) for name in answers if known[name] != answers[name]}
