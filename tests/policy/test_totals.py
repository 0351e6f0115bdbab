"""What a scan adds up to."""

from gangctl.policy.reports import NEWEST_VIOLATIONS, Totals, count, totals_of
from gangctl.policy.verdict import Finding, Outcome, Result
from tests.manifests.definitions.policystatus import PolicyStatus

NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-02T00:00:00Z"


def jobset(name: str, created: str = "2025-01-01T00:00:00Z") -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": created}}


def outcome(*results: Result, policy: str = "p", matched: bool = True) -> Outcome:
    findings = tuple(Finding(policy, str(index), result, f"says {index}") for index, result in enumerate(results))
    return Outcome(policy, matched, findings=findings)


def test_every_result_is_counted() -> None:
    totals = Totals()
    totals.add(outcome(Result.PASS, Result.FAIL, Result.ERROR, Result.EXEMPT), jobset("a"))
    totals.add(outcome(Result.PASS), jobset("b"))
    status = totals.status({}, NOW)
    assert status is not None
    assert status["results"] == {"pass": 2, "fail": 1, "error": 1, "exempt": 1}
    assert [(each["name"], each["rule"], each["result"]) for each in status["violations"]] == [
        ("a", "2", "error"),
        ("a", "1", "fail"),
    ]
    PolicyStatus.model_validate(status)


def test_a_policy_that_does_not_apply_counts_nothing() -> None:
    totals = totals_of(["p", "q"])
    count([outcome(Result.FAIL, matched=False), outcome(Result.FAIL, policy="other")], jobset("a"), totals)
    assert not totals["p"].counts
    assert not totals["q"].counts


def test_the_newest_jobsets_are_shown() -> None:
    totals = Totals()
    for day in range(1, 29):
        totals.add(outcome(Result.FAIL), jobset(f"j{day:02}", f"2025-01-{day:02}T00:00:00Z"))
    status = totals.status({}, NOW)
    assert status is not None
    assert len(status["violations"]) == NEWEST_VIOLATIONS
    assert status["violations"][0]["name"] == "j28"
    assert status["results"]["fail"] == 28


def test_a_scan_without_a_difference_changes_nothing() -> None:
    def scan() -> Totals:
        totals = Totals()
        for name in ("b", "a", "c"):
            totals.add(outcome(Result.FAIL, Result.PASS), jobset(name))
        return totals

    before = scan().status({}, NOW)
    assert before is not None
    assert scan().status(before, LATER) is None


def test_a_known_violation_keeps_its_time() -> None:
    first = Totals()
    first.add(outcome(Result.FAIL), jobset("old"))
    before = first.status({}, NOW)
    second = Totals()
    second.add(outcome(Result.FAIL), jobset("old"))
    second.add(outcome(Result.FAIL), jobset("new"))
    after = second.status(before or {}, LATER)
    assert after is not None
    assert {each["name"]: each["time"] for each in after["violations"]} == {"old": NOW, "new": LATER}
    assert after["lastScanTime"] == LATER


def test_texts_of_others_are_truncated_to_a_line() -> None:
    totals = Totals()
    totals.add(Outcome("p", matched=True, findings=(Finding("p", "0", Result.FAIL, "a\n" * 5000),)), jobset("a"))
    status = totals.status({}, NOW)
    assert status is not None
    message = status["violations"][0]["message"]
    assert "\n" not in message
    assert len(message) <= 1024
