"""Feature gates of Kueue that change which flavors a gang gets."""

from __future__ import annotations

from tests.fit.asking import CONFIGURATION, ask, cpu, gist, known, queue
from tests.fit.queues import group
from tests.rows import each

TWO = (group({"f1": {"cpu": 10_000}, "f2": {"cpu": 6000}}),)


@each(
    ("gate", "value", "unknown"),
    [("FlavorFungibility", "false", True), ("ConcurrentAdmission", "true", True), ("FlavorFungibility", "true", False)],
)
def test_which_of_several_flavors_a_gang_gets_may_be_unknown(gate: str, value: str, unknown: bool) -> None:
    text = f"{CONFIGURATION}featureGates: {{{gate}: {value}}}\n"
    several = known(queue(groups=TWO), configuration=text)
    report = ask(several, cpu(6))
    assert gist(report) == (("unknown", "MayFit") if unknown else ("fits", "Fits"))
    assert report["unknown"] == [f"which flavors Kueue gives it (feature gate {gate})"] * unknown
    assert gist(ask(known(queue(), configuration=text), cpu(6))) == ("fits", "Fits")
    assert gist(ask(several, cpu(20))) == ("never", "NeverExceedsQuota")
