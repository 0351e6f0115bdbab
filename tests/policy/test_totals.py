"""What a scan adds up to."""

from gangctl.policy.reports import MOST_NAMESPACES, PolicyTotals, count, totals_of
from gangctl.policy.verdict import Finding, Outcome, Result
from tests.manifests.definitions.policystatus import PolicyStatus

NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-02T00:00:00Z"


def jobset(name: str, namespace: str = "team") -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"}}


def outcome(*results: Result, policy: str = "p", matched: bool = True) -> Outcome:
    findings = tuple(Finding(policy, str(index), result, f"says {index}") for index, result in enumerate(results))
    return Outcome(policy, matched, findings=findings)


def test_every_result_is_counted() -> None:
    totals = PolicyTotals()
    totals.add(outcome(Result.PASS, Result.FAIL, Result.ERROR, Result.EXEMPT), jobset("a"))
    totals.add(outcome(Result.PASS), jobset("b"))
    status = totals.status({}, NOW)
    assert status is not None
    assert status["results"] == {"pass": 2, "fail": 1, "error": 1, "exempt": 1}
    assert status["violations"] == [{"namespace": "team", "count": 2}]
    PolicyStatus.model_validate(status)


def test_a_policy_that_does_not_apply_counts_nothing() -> None:
    totals = totals_of(["p", "q"])
    count([outcome(Result.FAIL, matched=False), outcome(Result.FAIL, policy="other")], jobset("a"), totals)
    assert not totals["p"].counts
    assert not totals["q"].counts


def test_the_status_has_namespaces_and_nothing_of_their_jobsets() -> None:
    totals = PolicyTotals()
    for number in range(MOST_NAMESPACES + 1):
        for name in ("secret-model",) * (2 if number == 7 else 1):
            totals.add(outcome(Result.FAIL, Result.PASS), jobset(name, namespace=f"team-{number:03}"))
    totals.add(outcome(Result.PASS), jobset("good", namespace="other"))
    status = totals.status({}, NOW)
    assert status is not None
    assert status["violations"][:2] == [{"namespace": "team-007", "count": 2}, {"namespace": "team-000", "count": 1}]
    assert len(status["violations"]) == MOST_NAMESPACES
    assert all(text not in str(status) for text in ("secret-model", "other", "says"))


def test_a_scan_without_a_difference_changes_nothing() -> None:
    def scan() -> PolicyTotals:
        totals = PolicyTotals()
        for name in ("b", "a", "c"):
            totals.add(outcome(Result.FAIL, Result.PASS), jobset(name))
        return totals

    before = scan().status({}, NOW)
    assert before is not None
    assert scan().status(before, LATER) is None
