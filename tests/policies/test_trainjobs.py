"""The JobSet that Kubeflow Trainer creates has no queue: what the page of queue-required says to do about that."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import yaml

from gangctl.cel.meter import StepMeter
from gangctl.cli.policy.requests import FileCatalogue, RequestSetting, request_of
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.load import load_policy
from gangctl.policy.review import Review, review_of_existing
from gangctl.policy.verdict import Outcome
from tests.policies.pack import Object, shipped

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
(POLICY,) = (policy for policy in shipped() if policy.name == "queue-required")
TRAINJOB, (CONDITION,) = (
    yaml.safe_load(block.partition("```")[0])
    for block in (POLICY.home / "README.md").read_text().split("```yaml\n")[1:]
)
TRAINER: Final = CONDITION["expression"].rpartition(" ")[2].strip("'\n")
QUEUELESS: Final = next(case.resource for case in POLICY.cases if case.row.message and case.old is None)


def of_a_trainjob(**labels: str) -> Object:
    """The JobSet as Trainer creates it, or as a user writes it."""
    owner = {"apiVersion": TRAINJOB["apiVersion"], "kind": "TrainJob", "name": "train", "uid": "1", "controller": True}
    metadata = {**QUEUELESS["metadata"], "name": "train", "ownerReferences": [owner], "labels": labels}
    return {**QUEUELESS, "metadata": metadata}


def created(raw: Object, user: str) -> Review:
    review, _ = request_of(raw, "CREATE", replace(RequestSetting(now=NOW), user=user), [], FileCatalogue([]))
    return review


def outcome(review: Review, *conditions: Any) -> Outcome:
    spec = {**POLICY.spec, "failurePolicy": "Fail"}
    spec["matchConditions"] = [*spec["matchConditions"], *conditions]
    loaded = load_policy({**POLICY.document, "spec": spec})
    return Evaluation(review).evaluate(loaded, StepMeter.request(lambda: 0.0))


def test_an_owner_that_a_user_writes_is_not_enough() -> None:
    assert outcome(created(of_a_trainjob(), "tenant")).violations
    assert outcome(created(of_a_trainjob(), "tenant"), CONDITION).violations


def test_the_jobset_of_a_trainjob_needs_the_label_of_the_page() -> None:
    labels = TRAINJOB["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["metadata"]["labels"]
    assert labels.items() <= TRAINJOB["metadata"]["labels"].items()
    assert outcome(created(of_a_trainjob(), TRAINER)).violations
    assert not outcome(created(of_a_trainjob(**labels), TRAINER)).violations


def test_the_condition_of_the_page_exempts_what_trainer_creates() -> None:
    assert TRAINER.startswith("system:serviceaccount:")
    assert outcome(created(of_a_trainjob(), TRAINER), CONDITION).skipped == f"matchConditions[{CONDITION['name']}]"
    assert outcome(review_of_existing(of_a_trainjob(), None, None, NOW), CONDITION).violations, "as the page says"
