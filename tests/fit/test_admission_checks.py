"""What AdmissionChecks decide once a JobSet has quota."""

from __future__ import annotations

from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.names import CHECK_CONTROLLER, PROVISIONING
from gangctl.kueue.objects import AdmissionCheck, CheckState, CheckUse
from tests.fit.asking import NAMESPACE, QUEUE, ask, cpu, gist, known, queue
from tests.fit.queues import holder
from tests.jobsets import jobset
from tests.rows import each


@each(
    ("controller", "flavors", "named"),
    [
        ("example.com/budget", (), ['whether AdmissionCheck "m" (example.com/budget) lets it start']),
        (PROVISIONING, (), [f'whether AdmissionCheck "m" ({PROVISIONING}) lets it start']),
        ("x", ("f1",), ['whether AdmissionCheck "m" (x) lets it start with flavor "f1"']),
        (CHECK_CONTROLLER, (), []),
    ],
)
def test_a_check_that_decides_once_there_is_quota_is_named(
    controller: str, flavors: tuple[str, ...], named: list[str]
) -> None:
    checked = known(queue(checks=(CheckUse("m", flavors),)), AdmissionCheck("m", controller))
    report = ask(checked, cpu(1))
    assert gist(report) == ("fits", "Fits")
    assert report["unknown"] == named
    assert all(why in report["message"] for why in named)
    assert ask(checked, cpu(11))["unknown"] == []


@each(("state", "named"), [("Ready", 0), ("Pending", 1)])
def test_a_check_that_is_ready_has_decided(state: str, named: int) -> None:
    held = holder("u", "a", {("f1", "cpu"): 1000}, checks=(CheckState("m", state),))
    checked = known(queue(checks=(CheckUse("m"),)), AdmissionCheck("m", "x"))
    report = fit(FitRequest(jobset("js", cpu(1)), NAMESPACE, {}, QUEUE, new=False, workload=held), checked)
    assert (gist(report), len(report["unknown"])) == (("fits", "Fits"), named)
