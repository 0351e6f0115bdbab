"""The answers of the webhooks depend on the cluster: foreign objects, taken names, a missing API."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from gangctl.api.scheduling import ApiState, Generation, Observed
from gangctl.apiserver.expressions import MatchConditions
from gangctl.gang.diff import Kind
from gangctl.gang.resolve import ClusterRules
from gangctl.webhooks.configurations import JOBSET_CONDITION
from gangctl.webhooks.gangs import GangAdmission
from gangctl.webhooks.review import AdmissionRequest, Operation
from gangctl.webhooks.review import Kind as RequestedKind
from tests.cases import object_name
from tests.gang.json_patch import apply
from tests.jobsets import FIXTURE_UID, MODE, jobset, rj, stamped_job
from tests.rows import each

GANGED = jobset("js", rj("w", 1, 2, 2, mode="Gang"))
STAMP = {"gangctl.dev/gang-ref": "rj/w/js-w"}


@dataclass
class View:
    """A cluster as the webhooks see it."""

    state: ApiState = field(default_factory=lambda: ApiState(Generation.V1BETA1))
    foreign: str | None = None
    objects: dict[str, Observed] = field(default_factory=dict)

    def rules(self, generation: Generation) -> ClusterRules:
        return ClusterRules(generation)

    def claimed(self, namespace: str, jobset: str) -> str | None:
        return self.foreign if (namespace, jobset) == ("t", "js") else None

    def scheduling(self, kind: Kind, namespace: str, name: str) -> Observed | None:
        return self.objects.get(f"{kind}/{namespace}/{name}")


def asked(raw: dict[str, Any], operation: Operation = "CREATE") -> AdmissionRequest:
    kind = RequestedKind("", "", raw["kind"])
    return AdmissionRequest("uid", operation, kind, "t", raw["metadata"]["name"], object=raw)


def job() -> dict[str, Any]:
    return stamped_job(FIXTURE_UID, STAMP)


def held(name: str, owner: str) -> Observed:
    return Observed("t", name, "uid", "1", owner, "js", deleting=False, claims_jobset="", min_counts=())


def test_a_jobset_planned_by_another_controller_is_left_alone() -> None:
    answer = GangAdmission(View(foreign="theirs")).mutate_jobset(asked(GANGED))
    assert answer.allowed
    assert answer.patch == ()
    assert "theirs" in answer.warnings[0]
    assert GangAdmission(View(foreign="theirs")).validate_jobset(asked(GANGED)).allowed


def test_without_the_scheduling_api_a_gang_is_refused_or_admitted_with_a_warning() -> None:
    view = View(ApiState(None, "the API is off"))
    unstamped = GangAdmission(view).mutate_jobset(asked(GANGED))
    assert (unstamped.allowed, unstamped.patch, unstamped.warnings) == (True, (), ())
    refused = GangAdmission(view).validate_jobset(asked(GANGED))
    assert (refused.allowed, refused.code) == (False, 422)
    assert "the API is off" in refused.message
    passed = GangAdmission(view, fail_open=True).mutate_jobset(asked(GANGED))
    assert passed.allowed
    assert passed.patch == ()
    assert "the API is off" in passed.warnings[0]


def test_a_resize_without_the_scheduling_api_is_refused_with_the_reason() -> None:
    before = apply(GANGED, GangAdmission(View()).mutate_jobset(asked(GANGED)).patch)
    after = jobset("js", rj("w", 1, 4, 4, mode="Gang"))
    request = replace(asked(after, "UPDATE"), old_object=before)
    refused = GangAdmission(View(ApiState(None, "the API is off"))).validate_jobset(request)
    assert not refused.allowed
    assert "no gang can be made on this cluster: the API is off" in refused.message


def test_the_unchanged_file_of_a_gang_can_be_applied_again() -> None:
    """Its mode is a policy's default, and `kubectl apply` replaces the list of ReplicatedJobs by that of the file."""
    lost = jobset("js", rj("w", 1, 2, 2))
    before = apply(GANGED, GangAdmission(View()).mutate_jobset(asked(GANGED)).patch)
    request = replace(asked(lost, "UPDATE"), old_object=before)
    answer = GangAdmission(View()).mutate_jobset(request)
    assert [text.split(":")[0] for text in answer.warnings] == ["ConfigIgnored"]
    restored = apply(lost, answer.patch)
    assert restored == before
    assert GangAdmission(View()).validate_jobset(replace(request, object=restored)).allowed


def test_a_gang_without_stamps_is_refused_in_validation() -> None:
    """Another webhook asked for the gang after gangctl's had run."""
    answer = GangAdmission(View()).validate_jobset(asked(GANGED))
    assert (answer.allowed, answer.code) == (False, 422)
    assert "another admission webhook" in answer.message


def test_a_mode_removed_by_a_later_webhook_is_refused() -> None:
    """Every template is stamped, so that the gang would be made although the JobSet no longer asks for it."""
    stamped = apply(GANGED, GangAdmission(View()).mutate_jobset(asked(GANGED)).patch)
    assert GangAdmission(View()).validate_jobset(asked(stamped)).allowed
    stamped["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"][MODE] = "Off"
    request = {"object": stamped, "oldObject": None, "request": {"operation": "CREATE"}}
    assert MatchConditions([JOBSET_CONDITION]).hold(request)
    answer = GangAdmission(View()).validate_jobset(asked(stamped))
    assert (answer.allowed, answer.code) == (False, 422)
    assert "another admission webhook" in answer.message


@each(("kind", "generation"), [("PodGroup", Generation.V1ALPHA2), ("Workload", Generation.V1ALPHA1)])
def test_a_job_is_refused_if_its_group_has_another_owner(kind: Kind, generation: Generation) -> None:
    name = object_name("js", FIXTURE_UID, "rj/w" if kind == "PodGroup" else "workload")
    strangers = View(ApiState(generation), objects={f"{kind}/t/{name}": held(name, "somebody")})
    answer = GangAdmission(strangers).mutate_job(asked(job()))
    assert (answer.allowed, answer.code) == (False, 422)
    assert name in answer.message
    ours = View(ApiState(generation), objects={f"{kind}/t/{name}": held(name, FIXTURE_UID)})
    assert GangAdmission(ours).mutate_job(asked(job())).patch


def test_a_stamped_job_is_refused_without_the_scheduling_api() -> None:
    """Denied, not let through: JobSet tries again, and no half gang starts."""
    answer = GangAdmission(View(ApiState(None, "upgrading"))).mutate_job(asked(job()))
    assert not answer.allowed
    assert "upgrading" in answer.message


@each(
    ("job", "warned"),
    [
        ({"completionMode": "Indexed"}, "spec.replicatedJobs[0].template.spec.completions"),
        ({"completionMode": "Indexed", "completions": 4}, ""),
        ({"completionMode": "NonIndexed"}, ""),
        ({"backoffLimitPerIndex": 1}, "spec.replicatedJobs[0].template.spec.backoffLimitPerIndex"),
    ],
)
def test_a_gang_whose_jobs_can_never_be_is_admitted_with_a_warning(job: dict[str, Any], warned: str) -> None:
    raw = jobset("js", rj("w", 1, 4, mode="Gang", job=job))
    webhooks = GangAdmission(View())
    stamped = apply(raw, webhooks.mutate_jobset(asked(raw)).patch)
    answer = webhooks.validate_jobset(asked(stamped))
    assert answer.allowed
    refusals = [text for text in answer.warnings if text.startswith("JobCreationRefused: ")]
    assert [text.split(": ")[1] for text in refusals] == ([warned] if warned else [])
