"""gangctl gives the answers of kube-apiserver."""

import pytest

from tests.parity.corpus import CASES
from tests.parity.evaluated import evaluate
from tests.parity.recorded import recorded


@pytest.mark.parametrize("topic", CASES)
def test_gangctl_gives_the_recorded_answer_of_the_server(topic: str) -> None:
    known = recorded()
    answers = {expression: evaluate(expression).verdict for expression in CASES[topic]}
    differing = {
        expression: f"{verdict}, not {known[expression].verdict}"
        for expression, verdict in answers.items()
        if verdict != known[expression].verdict
    }
    assert differing == {}
