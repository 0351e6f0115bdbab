"""PolicyReports of a scan."""

import orjson

from gangctl.policy.reports import MOST_BYTES, MOST_RESULTS, NamespaceReport
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction

DENY = frozenset({ValidationAction.DENY})
WARN = frozenset({ValidationAction.WARN})


def jobset(name: str = "a") -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"}}


def outcome(result: Result, actions: frozenset[ValidationAction] = DENY, exception: str = "") -> Outcome:
    return Outcome("p", matched=True, actions=actions, findings=(Finding("p", "r", result, "m", exception=exception),))


def report(*outcomes: Outcome) -> NamespaceReport:
    made = NamespaceReport()
    made.add(outcomes, jobset(), {"p": {"policies.gangctl.dev/severity": "high"}})
    return made


def test_results_are_those_of_the_working_group() -> None:
    made = report(
        outcome(Result.PASS),
        outcome(Result.FAIL),
        outcome(Result.FAIL, WARN),
        outcome(Result.ERROR),
        outcome(Result.EXEMPT, exception="until-friday"),
    )
    built = made.build("team", None, 1000)
    assert built["summary"] == {"pass": 1, "fail": 1, "warn": 1, "error": 1, "skip": 1}
    assert [(each["result"], each["scored"]) for each in built["results"]] == [
        ("fail", True),
        ("warn", True),
        ("error", True),
        ("skip", False),
    ]
    assert built["results"][3]["properties"] == {"exception": "until-friday"}
    assert built["results"][0]["severity"] == "high"
    assert built["results"][0]["timestamp"] == {"seconds": 1000, "nanos": 0}
    assert built["results"][0]["resources"] == [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "namespace": "team",
            "name": "a",
            "uid": "uid-a",
        }
    ]


def test_the_same_scan_builds_the_same_report() -> None:
    before = report(outcome(Result.FAIL)).build("team", None, 1000)
    assert report(outcome(Result.FAIL)).build("team", before, 2000) == before


def test_a_report_is_bounded_with_a_note() -> None:
    made = NamespaceReport()
    for number in range(MOST_RESULTS + 5):
        made.add([outcome(Result.FAIL)], jobset(f"j{number}"), {})
    built = made.build("team", None, 1000)
    assert len(built["results"]) == MOST_RESULTS
    assert built["summary"]["fail"] == MOST_RESULTS + 5
    assert built["metadata"]["annotations"] == {"gangctl.dev/results-left-out": "5"}


def test_a_report_is_no_larger_than_etcd_takes() -> None:
    made, finding = NamespaceReport(), Finding("p", "r", Result.FAIL, "\N{GREEK SMALL LETTER ALPHA}" * 2000)
    for number in range(MOST_RESULTS):
        made.add([Outcome("p", matched=True, actions=DENY, findings=(finding,))], jobset(f"j{number}"), {})
    made.add([outcome(Result.FAIL)], jobset(), {})
    built = made.build("team", None, 1000)
    assert MOST_BYTES / 2 < len(orjson.dumps(built)) < 1.5 * 2**20
    assert built["results"][-1]["message"] == "m", "a short one has a place"
    assert built["metadata"]["annotations"] == {
        "gangctl.dev/results-left-out": str(built["summary"]["fail"] - len(built["results"]))
    }


def test_a_policy_that_does_not_apply_is_not_reported() -> None:
    assert report(Outcome("p", matched=False)).build("team", None, 1)["results"] == []


def test_only_severities_of_the_schema_are_reported() -> None:
    made = NamespaceReport()
    made.add([outcome(Result.FAIL)], jobset(), {"p": {"policies.gangctl.dev/severity": "apocalyptic"}})
    assert "severity" not in made.build("team", None, 1)["results"][0]
