"""Which gangs a rendering has, once gangctl itself has read it."""

from __future__ import annotations

import json
from typing import Any

from gangctl.api.meta import GANGS
from gangctl.api.scheduling import Generation
from gangctl.gang.reasons import Reason
from gangctl.pathways.result import Profile, RenderingInputs
from tests.gang.pipeline import planned, resolved, some_plan
from tests.pathways.samples import annotated, pathways_job
from tests.pathways.views import job_template, jobset_of, notes_on, only_problem, rendered
from tests.rows import each

Object = dict[str, Any]

COLOCATE = {"deploymentMode": "colocate_head_with_workers"}
MODE = "gangctl.dev/gang-mode"
OPTIONS = "gangctl.dev/gang-options"
POOL = "cloud.google.com/gke-nodepool"
ONE_SLICE = {"numSlices": 1}
DYNAMIC = annotated(pathways_options='{"slicing": "Dynamic"}')
TOPOLOGY = {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
ASKED_BESIDE_TOPOLOGY = {
    "annotations": {**TOPOLOGY["annotations"], "gangctl.dev/pathways-worker-mode": "ReplicatedGang"}
}


def groups(job: Object, setting: RenderingInputs | None = None) -> list[int]:
    """How many pods each gang of a rendering waits for."""
    plan = planned(jobset_of(job, setting))
    return [] if plan is None else [each.template.min_count for each in plan.groups]


@each(
    ("job", "expected"),
    [
        (pathways_job(), [4]),
        (pathways_job(headless=True), [4]),
        (pathways_job(workers={"topology": "2x2x1", "numSlices": 3}), [3]),
        (pathways_job(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}), [2, 2]),
        (pathways_job(metadata=annotated(gang_options='{"topologyKey": "rack"}')), [2, 2]),
        (pathways_job(controller={"elasticSlices": 1}), [2, 2]),
        (pathways_job(controller=COLOCATE), [5]),
        (pathways_job(controller=COLOCATE, headless=True), [5]),
        (pathways_job(controller={**COLOCATE, "elasticSlices": 1}), []),
        (pathways_job(metadata=annotated(gang_mode="Gang")), [5]),
        (pathways_job(metadata=annotated(gang_mode="Off")), []),
        (pathways_job(metadata=annotated(gang_mode="Off"), controller=COLOCATE), []),
        (pathways_job(metadata=annotated(pathways_worker_mode="Gang")), [4]),
        (pathways_job(metadata=annotated(pathways_worker_mode="Off")), []),
        (pathways_job(metadata=annotated(pathways_worker_mode="ReplicatedGang"), controller=COLOCATE), [2, 2]),
        (pathways_job(metadata=annotated(gang_mode="Off", pathways_worker_mode="Gang")), [4]),
        (pathways_job(metadata=DYNAMIC), []),
        (pathways_job(metadata=TOPOLOGY), []),
    ],
)
def test_a_rendering_has_the_expected_gangs(job: Object, expected: list[int]) -> None:
    assert groups(job) == expected


def test_a_topology_request_keeps_a_requested_gang() -> None:
    assert groups(pathways_job(metadata=ASKED_BESIDE_TOPOLOGY)) == [2, 2]


@each("controller", [{}, COLOCATE])
@each("mode", [{}, annotated(pathways_worker_mode="Gang")])
def test_without_the_scheduling_api_there_are_no_gangs_and_a_notice(controller: Object, mode: Object) -> None:
    rendering = rendered(pathways_job(metadata=mode, controller=controller), RenderingInputs(gangs=False))
    jobset = dict(rendering.jobset)
    assert jobset["metadata"]["annotations"][MODE] == "Off"
    assert MODE not in notes_on(job_template(jobset, "worker"))
    assert OPTIONS not in notes_on(jobset)
    assert Reason.GANG_CHOICE in [each.reason for each in rendering.notices]


def test_the_xpk_profile_has_no_gangs_and_no_annotation() -> None:
    jobset = jobset_of(pathways_job(), RenderingInputs(Profile.XPK))
    assert "gangctl.dev/gang" not in json.dumps(jobset)


def test_the_xpk_profile_can_have_a_requested_gang() -> None:
    assert groups(pathways_job(metadata=annotated(pathways_worker_mode="Gang")), RenderingInputs(Profile.XPK)) == [4]


@each(
    ("job", "setting", "expected"),
    [
        (pathways_job(), RenderingInputs(), None),
        (pathways_job(workers=ONE_SLICE), RenderingInputs(), POOL),
        (pathways_job(workers=ONE_SLICE), RenderingInputs(topology=False), None),
        (pathways_job(), RenderingInputs(Profile.XPK), None),
        (pathways_job(metadata=annotated(pathways_worker_mode="Gang")), RenderingInputs(), None),
        (pathways_job(metadata=annotated(pathways_worker_mode="Gang"), workers=ONE_SLICE), RenderingInputs(), POOL),
        (pathways_job(metadata=annotated(gang_mode="Gang"), workers=ONE_SLICE), RenderingInputs(), None),
        (pathways_job(metadata=annotated(gang_mode="Off")), RenderingInputs(), None),
        (pathways_job(controller=COLOCATE), RenderingInputs(), None),
        (pathways_job(controller=COLOCATE, workers=ONE_SLICE), RenderingInputs(), POOL),
        (pathways_job(metadata=annotated(gang_options='{"topologyKey": "rack"}')), RenderingInputs(), "rack"),
        (pathways_job(metadata=annotated(gang_options='{"topologyKey": null}')), RenderingInputs(), None),
        (
            pathways_job(metadata=annotated(gang_options='{"disruption": "all"}'), workers=ONE_SLICE),
            RenderingInputs(),
            POOL,
        ),
        (pathways_job(metadata=DYNAMIC), RenderingInputs(), None),
        (pathways_job(metadata=ASKED_BESIDE_TOPOLOGY), RenderingInputs(), None),
    ],
)
def test_a_gang_of_one_slice_requests_one_node_pool(
    job: Object, setting: RenderingInputs, expected: str | None
) -> None:
    assert resolved(jobset_of(job, setting)).config.options.topology_key == expected


def test_gang_options_of_the_pathwaysjob_are_kept() -> None:
    options = resolved(jobset_of(pathways_job(metadata=annotated(gang_options='{"disruption": "all"}')))).config.options
    assert options.disruption == "all"


def test_on_1_35_a_gang_has_no_topology() -> None:
    jobset = jobset_of(pathways_job(workers=ONE_SLICE), RenderingInputs(topology=False))
    assert resolved(jobset, Generation.V1ALPHA1).errors == ()


@each(
    ("options", "controller", "expected"),
    [
        ({}, {}, ("InOrder", None)),
        ({}, COLOCATE, ("AnyOrder", None)),
        ({"startup": "InOrder"}, {}, ("InOrder", None)),
        ({"startup": "AnyOrder"}, {}, ("AnyOrder", None)),
        ({"startup": "DependsOn"}, {}, (None, [{"name": "pathways-head", "status": "Ready"}])),
    ],
)
def test_the_startup_order_follows_the_options(
    options: Object, controller: Object, expected: tuple[str | None, list[Object] | None]
) -> None:
    metadata = annotated(pathways_options=json.dumps(options))
    jobset = jobset_of(pathways_job(metadata=metadata, controller=controller))
    order = jobset["spec"].get("startupPolicy", {}).get("startupPolicyOrder")
    head, workers = jobset["spec"]["replicatedJobs"]
    assert (order, workers.get("dependsOn")) == expected
    assert "dependsOn" not in head


def test_a_gang_of_everything_is_created_together() -> None:
    jobset = jobset_of(pathways_job(metadata=annotated(gang_mode="Gang")))
    assert jobset["spec"]["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}


def reported(job: Object, setting: RenderingInputs | None = None) -> list[str]:
    """The notice on a choice that a user may want to change."""
    return [each.message for each in rendered(job, setting).notices if each.reason is Reason.GANG_CHOICE]


@each(
    "job",
    [
        pathways_job(),
        pathways_job(workers=ONE_SLICE),
        pathways_job(controller={"elasticSlices": 1}),
        pathways_job(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}),
        pathways_job(metadata=annotated(pathways_worker_mode="ReplicatedGang")),
        pathways_job(metadata=annotated(pathways_worker_mode="Gang")),
        pathways_job(controller=COLOCATE),
        pathways_job(metadata=DYNAMIC, workers={"type": "tpu7x-standard-4t", "topology": "4x4x4"}),
    ],
)
def test_a_safe_choice_of_gangs_gives_no_notice(job: Object) -> None:
    assert reported(job) == []


def test_slices_that_can_deadlock_give_a_notice() -> None:
    (message,) = reported(pathways_job(metadata=annotated(gang_options='{"topologyKey": "rack"}')))
    assert "without topologyKey they start together" in message
    assert "Kueue" in message


def test_a_colocated_head_with_elastic_slices_gives_a_notice() -> None:
    (message,) = reported(pathways_job(controller={**COLOCATE, "elasticSlices": 1}))
    assert 'pathways-worker-mode: "ReplicatedGang"' in message


def listed(*gangs: dict[str, Any]) -> dict[str, Any]:
    return {"annotations": {GANGS: json.dumps(gangs)}}


def test_a_list_of_gangs_is_that_of_the_jobset() -> None:
    slices = {"name": "slices", "replicatedJobs": ["worker"], "perReplica": True, "topologyKey": "rack"}
    metadata = listed(slices)
    jobset = jobset_of(pathways_job(metadata=metadata), RenderingInputs(composite=True))
    notes = jobset["metadata"]["annotations"]
    assert notes[GANGS] == metadata["annotations"][GANGS]
    assert "gangctl.dev/gang-options" not in notes
    plan = some_plan(jobset)
    assert {template.topology_key for template in plan.workload.templates} == {"rack"}
    assert (
        GANGS not in jobset_of(pathways_job(metadata=metadata), RenderingInputs(gangs=False))["metadata"]["annotations"]
    )


@each(
    ("metadata", "place"),
    [
        (listed({"name": "a", "replicatedJobs": ["workers"]}), "[0].replicatedJobs[0]"),
        (listed({"name": "a", "replicatedJobs": ["worker"], "topologyKey": POOL}), "[0].topologyKey"),
    ],
)
def test_a_list_of_gangs_that_does_not_fit_is_refused(metadata: dict[str, Any], place: str) -> None:
    problem = only_problem(pathways_job(metadata=metadata, workers={"numSlices": 2}))
    assert problem.error.path == f"metadata.annotations[{GANGS}]{place}"


HEAD_ALONE = pathways_job(metadata=listed({"name": "head", "replicatedJobs": ["pathways-head"]}))


def test_a_list_without_the_workers_is_that_of_the_jobset() -> None:
    (group,) = some_plan(jobset_of(HEAD_ALONE)).groups
    assert group.template.min_count == 1
    rendering = rendered(HEAD_ALONE, RenderingInputs(gangs=False))
    assert GANGS not in rendering.jobset["metadata"]["annotations"]
    assert Reason.GANG_CHOICE in [each.reason for each in rendering.notices]


def test_slices_start_together_where_the_cluster_can() -> None:
    job = pathways_job(workers={"numSlices": 3})
    plan = some_plan(jobset_of(job, RenderingInputs(composite=True)))
    assert plan.composite is not None
    assert (len(plan.groups), plan.composite.template.min_group_count) == (3, 3)
    assert {template.topology_key for template in plan.workload.templates} == {POOL}
    assert some_plan(jobset_of(job)).composite is None
