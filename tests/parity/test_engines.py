"""Each engine says what kube-apiserver says."""

import pytest

from gangctl.policy.cel.engine import Engine
from gangctl.policy.cel.engines import available, make_engine
from tests.parity.corpus import cases
from tests.parity.engines import evaluate
from tests.parity.recorded import recorded

KNOWN = recorded()


@pytest.fixture(scope="module", params=available())
def engine(request: pytest.FixtureRequest) -> Engine:
    return make_engine(request.param)


@pytest.mark.parametrize("expression", [expression for _, expression in cases()])
def test_it_is_the_servers_answer(engine: Engine, expression: str) -> None:
    assert evaluate(engine, expression).verdict == KNOWN[expression].verdict
