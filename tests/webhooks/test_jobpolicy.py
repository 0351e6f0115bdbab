"""The policy for Jobs as data: its CEL names the group that the plan has, for the Jobs that the webhook is sent."""

from __future__ import annotations

import copy
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.meta import JOB_RESTART_ATTEMPT, RESTART_ATTEMPT
from gangctl.api.scheduling import Reference
from gangctl.apiserver.expressions import MatchConditions
from gangctl.gang.admission import reference_of_job
from gangctl.gang.generation import names_its_group, stamped_proof_job
from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_job_webhooks
from gangctl.webhooks.jobpolicy import BINDING, POLICY, build_job_policy
from tests.cel.evaluation.evaluating import evaluate
from tests.gang.pipeline import child_job, stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.strategies import PROPERTY, gangs

Raw = dict[str, Any]
SETTINGS: Final = WebhookSettings(Endpoint(url="https://127.0.0.1:9443"))
SPEC: Final = build_job_policy(SETTINGS)[0]["spec"]
JOB: Final = child_job(stored(jobset("js", rj("w", 2, mode="Gang"), uid=FIXTURE_UID)), 0, 1)


def matches(job: Raw, old: Raw | None = None) -> bool:
    request = {"operation": "CREATE" if old is None else "UPDATE"}
    return MatchConditions(SPEC["matchConditions"]).hold({"object": job, "oldObject": old, "request": request})


def group(job: Raw, old: Raw | None = None) -> str:
    """What the policy writes into the Job: its variables, each with those before it."""
    request = {"operation": "CREATE" if old is None else "UPDATE"}
    values: dict[str, Any] = {}
    for variable in SPEC["variables"]:
        text = variable["expression"]
        values[variable["name"]] = evaluate(text, values, object=job, oldObject=old, request=request)
    return str(values["group"])


def naming(job: Raw, name: str, field: str = "schedulingGroup") -> Raw:
    changed = copy.deepcopy(job)
    changed["spec"]["template"]["spec"][field] = {"podGroupName": name}
    return changed


attempts = st.integers(0, 2**31 - 1)


@given(raw=gangs(), attempt=attempts, again=attempts)
@PROPERTY
def test_a_job_gets_the_group_of_the_plan(raw: Raw, attempt: int, again: int) -> None:
    jobs = stored(raw)
    for position, entry in enumerate(jobs["spec"]["replicatedJobs"]):
        for index in range(entry.get("replicas", 1)):
            job = child_job(jobs, position, index)
            job["metadata"]["labels"] |= {RESTART_ATTEMPT: str(attempt), JOB_RESTART_ATTEMPT: str(again)}
            reference = reference_of_job(job)
            assert matches(job) is (reference is not None)
            if reference is not None:
                assert isinstance(reference, Reference)
                assert group(job) == reference.group


def test_a_job_without_a_restart_label_gets_the_group_of_the_first_attempt() -> None:
    job = copy.deepcopy(JOB)
    del job["metadata"]["labels"][RESTART_ATTEMPT]
    assert group(job) == "js-w-0f5a6f3e-7c21-0"


def test_a_group_set_in_the_job_is_kept() -> None:
    assert matches(JOB)
    assert not matches(naming(JOB, "mine"))


def test_an_update_that_drops_the_reference_restores_it() -> None:
    assert matches(JOB, naming(JOB, "as-created"))
    assert group(JOB, naming(JOB, "as-created")) == "as-created"
    assert not matches(JOB, JOB)
    assert not matches(naming(JOB, "as-created"), naming(JOB, "as-created"))


def test_the_proof_job_is_matched_as_a_job_of_a_gang() -> None:
    job = stamped_proof_job("gangctl-system")
    assert matches(job)
    assert not names_its_group(job)
    assert not names_its_group(naming(job, "another"))
    assert names_its_group(naming(job, group(job)))


def test_the_policy_and_the_webhook_are_for_the_same_jobs() -> None:
    managed = {"key": "gangctl.dev/managed", "operator": "In", "values": ["true"]}
    settings = WebhookSettings(SETTINGS.endpoint, ("kube-system", "own"), (managed,), failure_policy="Ignore")
    policy, binding = build_job_policy(settings)
    (webhook,) = build_job_webhooks(settings, b"")["webhooks"]
    assert [policy["kind"], binding["kind"]] == [POLICY, BINDING]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    resources = binding["spec"]["matchResources"]
    assert resources == {key: webhook[key] for key in ("namespaceSelector", "objectSelector")}
    assert policy["spec"]["matchConstraints"]["resourceRules"] == webhook["rules"]
    # The policy restores the group also of a Job that is being deleted: it is never away.
    assert policy["spec"]["matchConditions"] == webhook["matchConditions"][:-1]
    for of_both in ("failurePolicy", "reinvocationPolicy"):
        assert policy["spec"][of_both] == webhook[of_both]
    assert (webhook["failurePolicy"], webhook["reinvocationPolicy"]) == ("Fail", "IfNeeded")
