"""Feature gates of Kueue that change which flavors a gang gets, and whether it gets any."""

from __future__ import annotations

from tests.fit.asking import CONFIGURATION, ask, cpu, gist, known, pods, queue
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


NAMED, MADE = {"name": "c", "resourceClaimName": "shared"}, {"name": "c", "resourceClaimTemplateName": "one"}


@each(
    ("claim", "gates", "limit", "reason"),
    [
        (NAMED, "", 18, "NeverMisconfigured"),
        (MADE, "", 18, "MayFit"),
        (NAMED, "", 10, "MayFit"),
        (NAMED, "KueueDRAIntegration: false", 18, "NeverMisconfigured"),
        (MADE, "KueueDRAIntegration: false", 18, "NeverMisconfigured"),
        (NAMED, "KueueDRAIntegration: false, KueueDRARejectWorkloadsWhenDRADisabled: false", 18, "MayFit"),
    ],
)
def test_a_claim_by_name_is_never_admitted(claim: dict[str, str], gates: str, limit: int, reason: str) -> None:
    text = f"{CONFIGURATION}featureGates: {{{gates}}}\n"
    snapshot = known(queue(strategy="StrictFIFO"), configuration=text, queue_limit=limit)
    report = ask(snapshot, pods("w", 2, {"resourceClaims": [claim]}, cpu="1"))
    assert (report["reason"], report["blocking"]) == (reason, False)
