"""What must hold before quota decides: a queue, and labels that Kueue takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangctl.api.meta import QUEUE_NAME
from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.names import MAX_SECONDS, MULTIKUEUE, PREBUILT, PROVISIONING
from gangctl.kueue.objects import AdmissionCheck, CheckUse, ClusterQueue, LocalQueue
from tests.fit.asking import CONFIGURATION, NAMESPACE, QUEUE, ask, cpu, gist, known, queue
from tests.fit.queues import group
from tests.jobsets import jobset
from tests.rows import each


def test_a_jobset_without_a_queue_is_not_queued() -> None:
    report = fit(FitRequest(jobset("js", cpu(99)), NAMESPACE, {}, ""), known(queue()))
    assert gist(report) == ("fits", "NotQueued")
    assert (report["queue"], report["limits"]) == ("", [])


def test_without_kueue_a_jobset_is_not_queued() -> None:
    assert gist(ask(known(queue(), queued=False), cpu(99))) == ("fits", "NotQueued")


def test_the_default_queue_applies_to_new_jobsets_only() -> None:
    snapshot = known(queue(), LocalQueue(NAMESPACE, "default", "a"))
    raw = jobset("js", cpu(99))
    assert gist(fit(FitRequest(raw, NAMESPACE, {}, ""), snapshot)) == ("never", "NeverExceedsQuota")
    assert gist(fit(FitRequest(raw, NAMESPACE, {}, "", new=False), snapshot)) == ("fits", "NotQueued")


def test_the_default_queue_is_not_for_a_jobset_of_an_object_that_kueue_manages() -> None:
    """Of a TrainJob, say, which has its own queue."""
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "t", "uid": "1"}
    raw = jobset("js", cpu(99))
    raw["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    held = queue(), LocalQueue(NAMESPACE, "default", "a")
    asked = FitRequest(raw, NAMESPACE, {}, "")
    assert gist(fit(asked, known(*held))) == ("never", "NeverExceedsQuota")
    text = CONFIGURATION.replace("batch/job", "batch/job, trainer.kubeflow.org/trainjob")
    report = fit(asked, known(*held, configuration=text))
    assert gist(report) == ("fits", "NotQueued")
    assert "Kueue queues the TrainJob that controls it" in report["message"]


def test_jobsets_are_not_queued_if_kueue_does_not_manage_them() -> None:
    text = CONFIGURATION.replace("batch/job, jobset.x-k8s.io/jobset", "batch/job")
    assert gist(ask(known(queue(), configuration=text), cpu(99))) == ("fits", "NotQueued")


@each(
    ("labels", "queue", "new", "expected"),
    [
        ({QUEUE_NAME: ""}, "", True, "NeverMisconfigured"),
        ({QUEUE_NAME: "Team_A"}, "Team_A", True, "NeverMisconfigured"),
        ({QUEUE_NAME: "Team_A"}, "Team_A", False, "NeverMisconfigured"),
        ({QUEUE_NAME: ""}, "", False, "NotQueued"),
        ({QUEUE_NAME: ""}, QUEUE, True, "Fits"),
        ({MAX_SECONDS: "1h"}, QUEUE, True, "NeverMisconfigured"),
        ({MAX_SECONDS: "0"}, "", True, "NeverMisconfigured"),
        ({MAX_SECONDS: "99999999999999999999"}, QUEUE, False, "NeverMisconfigured"),
        ({MAX_SECONDS: "0"}, "", False, "NotQueued"),
        ({MAX_SECONDS: "3600"}, QUEUE, True, "Fits"),
    ],
)
def test_labels_that_kueue_refuses_never_fit(
    labels: Mapping[str, str], queue: str, expected: str, *, new: bool
) -> None:
    raw = jobset("js", cpu(1))
    raw["metadata"]["labels"] = labels
    strict = ClusterQueue("a", groups=(group({"f1": {"cpu": 10_000}}),), selector=(), strategy="StrictFIFO")
    report = fit(FitRequest(raw, NAMESPACE, {}, queue, new), known(strict))
    assert (report["reason"], report["blocking"]) == (expected, False)
    assert ("Kueue refuses it: label " in report["message"]) is (expected == "NeverMisconfigured")


def test_an_empty_label_gets_the_default_queue_and_is_nothing_to_a_kueue_without_jobsets() -> None:
    raw = jobset("js", cpu(1))
    raw["metadata"]["labels"] = {QUEUE_NAME: ""}
    asked = FitRequest(raw, NAMESPACE, {}, "")
    assert gist(fit(asked, known(queue(), LocalQueue(NAMESPACE, "default", "a")))) == ("fits", "Fits")
    text = CONFIGURATION.replace("batch/job, jobset.x-k8s.io/jobset", "batch/job")
    assert gist(fit(asked, known(queue(), configuration=text))) == ("fits", "NotQueued")
    assert gist(fit(asked, known(queue(), configuration=None))) == ("unknown", "Unknown")


FRAMEWORKS = "[batch/job, jobset.x-k8s.io/jobset]"
UNQUEUED = "manageJobsWithoutQueueName: true\nmanagedJobsNamespaceSelector: {matchLabels: {team: a}}\n"
TEAM = {"team": "a"}


@each(
    ("frameworks", "labels", "default", "expected"),
    [
        ("[batch/job]", TEAM, False, ("not-now", "QueueBlocked")),
        ("[pod]", TEAM, False, ("not-now", "QueueBlocked")),
        ("[ray.io/rayjob]", TEAM, False, ("fits", "NotQueued")),
        ("[batch/job]", {"team": "b"}, False, ("fits", "NotQueued")),
        ("[batch/job]", None, False, ("unknown", "MayFit")),
        # Kueue gives its Jobs the queue.
        ("[batch/job]", TEAM, True, ("unknown", "MayFit")),
    ],
)
def test_a_kueue_without_jobsets_suspends_jobs_that_name_no_queue(
    frameworks: str, labels: Mapping[str, str] | None, expected: tuple[str, str], *, default: bool
) -> None:
    doors = [LocalQueue(NAMESPACE, "default", "a")] * default
    snapshot = known(queue(), *doors, configuration=CONFIGURATION.replace(FRAMEWORKS, frameworks) + UNQUEUED)
    for name in ("", QUEUE):
        report = fit(FitRequest(jobset("js", cpu(99)), NAMESPACE, labels, name), snapshot)
        assert gist(report) == expected, name
        assert ("add jobset.x-k8s.io/jobset to integrations.frameworks" in report["message"]) is (
            expected[1] == "QueueBlocked" or default
        )


@each(
    ("on", "frameworks", "unqueued", "expected"),
    [
        ("job", FRAMEWORKS, "", ("unknown", "MayFit")),
        ("job", "[batch/job]", "", ("unknown", "MayFit")),
        ("job", "[batch/job]", UNQUEUED, ("unknown", "MayFit")),
        ("job", "[jobset.x-k8s.io/jobset]", "", ("fits", "NotQueued")),
        ("pod", FRAMEWORKS, "", ("fits", "NotQueued")),
        ("pod", "[jobset.x-k8s.io/jobset, pod]", "", ("unknown", "MayFit")),
        # Kueue suspends the JobSet itself, or leaves all of it alone.
        ("job", FRAMEWORKS, UNQUEUED, ("not-now", "QueueBlocked")),
        ("job", FRAMEWORKS, UNQUEUED.replace("team: a", "team: b"), ("fits", "NotQueued")),
    ],
)
def test_a_queue_below_the_jobset_queues_its_parts(
    on: str, frameworks: str, unqueued: str, expected: tuple[str, str]
) -> None:
    entry: dict[str, Any] = cpu(99)
    template = entry["template"] if on == "job" else entry["template"]["spec"]["template"]
    template["metadata"] = {"labels": {QUEUE_NAME: "gone"}}
    snapshot = known(queue(), configuration=CONFIGURATION.replace(FRAMEWORKS, frameworks) + unqueued)
    report = fit(FitRequest(jobset("js", entry), NAMESPACE, TEAM, ""), snapshot)
    assert gist(report) == expected
    path = f"template{'.spec.template' * (on == 'pod')}.metadata.labels[{QUEUE_NAME}]"
    assert [path in why for why in report["unknown"]] == [True] * (expected[0] == "unknown")


@each("named", ["labels", "annotations"])
@each(
    ("exists", "expected"),
    [(True, ("fits", "Fits")), (False, ("not-now", "QueueBlocked")), (None, ("unknown", "MayFit"))],
)
def test_kueue_makes_no_workload_beside_one_that_the_label_names(
    exists: bool | None, expected: tuple[str, str], named: str
) -> None:
    raw = jobset("js", cpu(1))
    raw["metadata"]["labels"] = {QUEUE_NAME: QUEUE, PREBUILT: "made" if named == "labels" else "free"}
    raw["metadata"]["annotations"] = {PREBUILT: "made"} if named == "annotations" else {}
    snapshot = known(queue())
    snapshot.has_workload = lambda namespace, name: exists if (namespace, name) == (NAMESPACE, "made") else True
    report = fit(FitRequest(raw, NAMESPACE, {}, QUEUE), snapshot)
    assert gist(report) == expected
    assert (f'"made" of {named[:-1]}' in report["message"]) is not exists


@each(
    ("checks", "words"),
    [
        ((CheckUse("m"), CheckUse("p")), "of MultiKueue and of ProvisioningRequest"),
        ((CheckUse("m"), CheckUse("n")), "several AdmissionChecks of MultiKueue"),
        ((CheckUse("m", ("f1",)),), "for some flavors alone"),
        ((CheckUse("m", ("f1", "f2")),), ""),
        ((CheckUse("p"),), ""),
    ],
)
def test_checks_that_conflict_make_a_queue_inactive(checks: tuple[CheckUse, ...], words: str) -> None:
    flavors = (group({"f1": {"cpu": 10_000}, "f2": {"cpu": 10_000}}),)
    held = [AdmissionCheck("m", MULTIKUEUE), AdmissionCheck("n", MULTIKUEUE), AdmissionCheck("p", PROVISIONING)]
    report = ask(known(queue(groups=flavors, checks=checks), *held), cpu(1))
    assert (report["reason"] == "QueueBlocked") is bool(words), report["message"]
    assert words in report["message"]


def test_a_check_that_does_not_exist_makes_a_queue_inactive_whatever_kueues_configuration_is() -> None:
    assert gist(ask(known(queue(checks=(CheckUse("m"),)), configuration=None), cpu(1))) == ("not-now", "QueueBlocked")
