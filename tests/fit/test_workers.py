"""The verdict of a queue that dispatches, of its own and those of its worker clusters."""

from __future__ import annotations

from itertools import product
from typing import get_args

from gangctl.fit.report import FitReport, Verdict, WorkerFit, dispatched, unknown_worker
from tests.fit.asking import ask, cpu, known, queue
from tests.rows import each

VERDICTS = get_args(Verdict)


def own(verdict: Verdict = "fits") -> FitReport:
    report = ask(known(queue()), cpu(1))
    return {**report, "verdict": verdict, "reason": f"Own-{verdict}", "message": "Its own."}


def worker(verdict: Verdict, name: str = "west") -> WorkerFit:
    return {"name": name, "verdict": verdict, "reason": f"{name}-{verdict}", "message": f"There: {verdict}."}


@each(
    ("workers", "verdict", "words"),
    [
        (["fits", "never"], "fits", "It fits on worker cluster w0 now."),
        (["fits", "fits"], "fits", "It fits on worker clusters w0, w1 now."),
        (["unknown", "fits"], "fits", "It fits on worker cluster w1 now."),
        (["not-now", "never"], "not-now", "It fits on no worker cluster now."),
        (["not-now", "unknown"], "not-now", "It fits on no worker cluster now, as far as is known; not known: w1."),
        (["never", "unknown"], "unknown", "It fits on no worker cluster now, as far as is known; not known: w1."),
        (["never", "never"], "never", "No worker cluster can ever run it: w0, w1."),
    ],
)
def test_the_best_worker_cluster_decides(workers: list[Verdict], verdict: Verdict, words: str) -> None:
    found = dispatched(own(), [worker(each_, f"w{number}") for number, each_ in enumerate(workers)])
    assert found["verdict"] == verdict
    assert found["message"] == words


def test_every_combination_follows_the_two_rules() -> None:
    """Fits if its quota and one cluster have room now; never only if the quota never has, or no cluster ever."""
    for mine, first, second in product(VERDICTS, repeat=3):
        verdict = dispatched(own(mine), [worker(first, "a"), worker(second, "b")])["verdict"]
        assert (verdict == "never") is (mine == "never" or (first, second) == ("never", "never"))
        assert (verdict == "fits") is (mine == "fits" and "fits" in {first, second})


def test_the_own_queue_is_named_first() -> None:
    waits = dispatched(own("not-now"), [worker("fits")])
    assert (waits["verdict"], waits["reason"], waits["message"]) == ("not-now", "Own-not-now", "Its own.")


def test_a_cluster_that_could_not_be_read_is_listed_as_unknown() -> None:
    lost = unknown_worker("east", "it does not answer")
    assert lost["message"] == "Not known: it does not answer."
    found = dispatched(own(), [worker("not-now"), lost])
    assert found["unknown"] == ["what worker cluster east has"]
    assert dispatched(own(), [worker("fits"), lost])["unknown"] == []
