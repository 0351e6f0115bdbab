"""Each engine says what kube-apiserver says."""

import pytest

from gangctl.policy.cel.engine import Engine
from gangctl.policy.cel.engines import available, make_engine
from tests.parity.corpus import CASES
from tests.parity.engines import evaluate
from tests.parity.recorded import recorded


@pytest.fixture(scope="module", params=available())
def engine(request: pytest.FixtureRequest) -> Engine:
    return make_engine(request.param)


@pytest.mark.parametrize("topic", CASES)
def test_it_is_the_servers_answer(engine: Engine, topic: str) -> None:
    known = recorded()
    answers = {expression: evaluate(engine, expression).verdict for expression in CASES[topic]}
    differing = {
        expression: f"{verdict}, not {known[expression].verdict}"
        for expression, verdict in answers.items()
        if verdict != known[expression].verdict
    }
    assert differing == {}
