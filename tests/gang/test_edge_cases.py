"""The edge cases of counting, naming and resolving, one test per row of the table (E01 to E20 and E25 to E31).

Rows of a JobSet's later life are in ``test_edge_cases_in_life.py``.
"""

from __future__ import annotations

from typing import Any

from gangctl.api.scheduling import Generation
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.errors import ErrorKind
from gangctl.gang.admission import reference_of_job
from gangctl.gang.desired import Lifecycle
from gangctl.gang.diff import Delete, diff
from gangctl.gang.naming import BASE_LENGTH, MAX_LENGTH, template_names
from gangctl.gang.plan import pods_that_can_exist
from gangctl.gang.reasons import Reason
from gangctl.gang.resolve import ClusterRules, Resolution, resolve
from tests.gang.pipeline import GENERATIONS, assessed, child_job, planned, read, resolved, some_plan, stored, wanted
from tests.gang.store import Store
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each
from tests.strategies import EXCLUSIVE, NODE_SELECTOR

INT32 = 2**31 - 1
POD = "spec.template.spec"


def sizes(raw: dict[str, Any], generation: Generation = Generation.V1BETA1) -> dict[str, int]:
    return {t.name: t.min_count for t in some_plan(raw, generation).workload.templates}


def refused(resolution: Resolution) -> list[tuple[str, ErrorKind]]:
    return [(error.path, error.kind) for error in resolution.errors]


def reasons(resolution: Resolution) -> list[Reason]:
    assert resolution.errors == ()
    return [notice.reason for notice in resolution.notices]


def test_e01_fewer_completions_than_parallelism() -> None:
    assert sizes(jobset("js", rj("w", 1, 5, 2, mode="Gang"))) == {"w": 2}


def test_e02_more_completions_than_parallelism() -> None:
    assert sizes(jobset("js", rj("w", 1, 4, 10, mode="Gang"))) == {"w": 4}
    assert [pods_that_can_exist(4, 10, succeeded=done) for done in (0, 6, 7, 9, 10, 11)] == [4, 4, 3, 1, 0, 0]


@each(("parallelism", "completions", "pods"), [(None, None, 1), (None, 5, 1), (4, None, 4)])
def test_e03_null_counts(parallelism: int | None, completions: int | None, pods: int) -> None:
    assert sizes(jobset("js", rj("w", 1, parallelism, completions, mode="ReplicatedGang"))) == {"w": pods}


def test_e04_no_parallelism_no_group_and_no_template_later() -> None:
    empty = jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 1, 0, 0, mode="Gang"))
    resolution = resolved(empty)
    assert reasons(resolution) == [Reason.GANG_EMPTY]
    assert not resolution.notices[0].is_warning
    assert resolution.stamps[1] is None
    nothing = resolved(jobset("js", rj("a", 0, 2, 2), rj("b", 1, 0, 0), mode="Gang"))
    assert reasons(nothing) == [Reason.GANG_EMPTY]
    assert nothing.stamps == (None, None)
    assert sizes(empty) == {"a": 2}
    before, after = (
        some_plan(empty),
        some_plan(jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 1, 2, 2, mode="Gang"))),
    )
    store = Store(Generation.V1BETA1, [ADAPTERS[Generation.V1BETA1].workload(before.workload)])
    (change,) = diff(wanted(after), store.existing(after), Generation.V1BETA1.capabilities).changes
    assert isinstance(change, Delete)
    assert change.kind == "Workload"


def test_e05_no_replicas_no_template() -> None:
    assert sizes(jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 0, 3, 3, mode="ReplicatedGang"))) == {"a": 2}
    assert sizes(jobset("js", rj("a", None, 3, 3, mode="Gang"))) == {"a": 3}
    odd = rj("b", 0, 3, 3, pod={"priorityClassName": "high"}, annotations={EXCLUSIVE: "rack"})
    assert sizes(jobset("js", rj("a", 1, 2, 2), odd, mode="Gang")) == {"jobset": 2}


def test_e06_more_pods_than_int32() -> None:
    too_many = jobset("js", rj("a", 1, INT32, INT32), rj("b", 1, 1, 1), mode="Gang")
    assert refused(resolved(too_many)) == [("spec.replicatedJobs", ErrorKind.INVALID)]
    one = jobset("js", rj("a", 1), rj("b", 2, INT32, INT32, mode="Gang"))
    assert refused(resolved(one)) == [("spec.replicatedJobs[1]", ErrorKind.INVALID)]
    assert sizes(jobset("js", rj("a", 1, INT32, INT32, mode="Gang"))) == {"a": INT32}


def test_e07_the_limit_is_on_templates() -> None:
    nine = [f"r{i}" for i in range(9)]
    own = jobset("js", *(rj(name, mode="Gang") for name in nine))
    assert refused(resolved(own)) == [("spec.replicatedJobs", ErrorKind.TOO_MANY)]
    assert sizes(jobset("js", *(rj(name) for name in nine), mode="Gang")) == {"jobset": 9}
    many = some_plan(jobset("js", *(rj(name, 50, mode="ReplicatedGang") for name in nine[:8])))
    assert (len(many.workload.templates), len(many.groups)) == (8, 400)


def test_e08_long_names_differ_by_a_hash() -> None:
    plan = some_plan(jobset("l" * 60, rj("n" * 63, 2, mode="ReplicatedGang"), uid=FIXTURE_UID))
    first, second = (group.name for group in plan.groups)
    assert (len(first), len(plan.workload.name)) == (BASE_LENGTH + len("-0f5a6f3e-7c21-0-0"), MAX_LENGTH)
    assert (first[-5:], second[-5:]) == ("1-0-0", "1-1-0")


def test_e09_a_name_that_is_no_dns_label() -> None:
    raw = jobset("js", rj("a", mode="Gang"), rj("x-", 1, 2, 2, mode="Gang"), rj("", mode="Gang"))
    assert sizes(raw) == {"a": 1, "rj1": 2, "rj2": 1}
    odd, given, guessed = template_names(("x-", "rj0", "rj0-00"))
    assert len({odd, given, guessed}) == 3
    assert odd.startswith("rj0-")


def test_e10_replica_of_b_and_a_replicated_job_called_b_0() -> None:
    plan = some_plan(jobset("js", rj("b", 1, mode="ReplicatedGang"), rj("b-0", 1, mode="Gang")))
    first, second = (group.name for group in plan.groups)
    assert (first, second) == ("js-b-00000000-0000-0-0", "js-b-0-00000000-0000-0")


def test_e11_created_again_under_the_same_name() -> None:
    first, second = (some_plan(jobset("js", rj("w", mode="Gang"), uid=uid)) for uid in ("one", "two"))
    assert first.workload.name != second.workload.name
    assert {g.name for g in first.groups}.isdisjoint(g.name for g in second.groups)


@each("field", ["schedulingGroup", "workloadRef"])
def test_e15_pods_that_name_a_group_already(field: str) -> None:
    pod = {field: {"name": "mine"}}
    skipped = jobset("js", rj("a", mode="Gang"), rj("w", mode="Gang", pod=pod))
    assert reasons(resolved(skipped)) == [Reason.USER_MANAGED]
    assert resolved(skipped).notices[0].is_warning
    assert sizes(skipped) == {"a": 1}
    whole = jobset("js", rj("a"), rj("w", pod=pod), mode="Gang")
    assert refused(resolved(whole)) == [(f"spec.replicatedJobs[1].template.{POD}.{field}", ErrorKind.FORBIDDEN)]
    assert sizes(jobset("js", rj("a"), rj("w", pod=pod, mode="Off"), mode="Gang")) == {"jobset": 1}
    assert reasons(resolved(jobset("js", rj("w", pod=pod)))) == []
    job = child_job(stored(jobset("js", rj("w", mode="Gang"), uid="u")), 0, 0)
    job["spec"]["template"]["spec"][field] = pod[field]
    assert reference_of_job(job) is None


@each("generation", GENERATIONS)
def test_e16_mixed_priority(generation: Generation) -> None:
    high = {"priorityClassName": "high"}
    mixed = resolved(jobset("js", rj("a"), rj("b", pod=high), mode="Gang"), generation)
    if generation.capabilities.uniform_priority:
        path = f"spec.replicatedJobs[1].template.{POD}.priorityClassName"
        assert refused(mixed) == [(path, ErrorKind.INVALID)]
    else:
        assert reasons(mixed) == [Reason.MIXED_PRIORITY]
    apart = jobset("js", rj("a", mode="Gang"), rj("b", mode="Gang", pod=high))
    assert reasons(resolved(apart, generation)) == []


@each("generation", GENERATIONS)
def test_e16_system_classes(generation: Generation) -> None:
    """The priority of a group is 1000000000 at most, and since 1.37 its pods need the same."""
    critical = {"priorityClassName": "system-cluster-critical"}
    path = f"spec.replicatedJobs[0].template.{POD}.priorityClassName"
    whole, mixed = (jobset("js", rj("a", pod=critical), rj("b", pod=pod), mode="Gang") for pod in (critical, {}))
    if generation.capabilities.uniform_priority:
        for raw in (whole, mixed):
            (error,) = resolved(raw, generation).errors
            assert (error.path, error.kind) == (path, ErrorKind.INVALID)
            assert '"system-cluster-critical"' in error.detail
    else:
        assert reasons(resolved(whole, generation)) == []
    off = jobset("js", rj("a", pod=critical, mode="Off"), rj("b", mode="Gang"))
    assert reasons(resolved(off, generation)) == []


@each("generation", GENERATIONS)
def test_e17_mixed_schedulers(generation: Generation) -> None:
    pod = {"schedulerName": "mine"}
    rules = ClusterRules(generation, frozenset({"default-scheduler", "mine"}))
    path = f"spec.replicatedJobs[1].template.{POD}.schedulerName"
    for scheduler in ("mine", "volcano"):
        mixed = jobset("js", rj("a"), rj("b", pod={"schedulerName": scheduler}), mode="Gang")
        assert refused(resolve(read(mixed), rules)) == [(path, ErrorKind.INVALID)]
    spelled_out = jobset("js", rj("a"), rj("b", pod={"schedulerName": "default-scheduler"}), mode="Gang")
    assert reasons(resolve(read(spelled_out), rules)) == []
    assert reasons(resolve(read(jobset("js", rj("a"), rj("b", 0, pod=pod), mode="Gang")), rules)) == []
    in_turn = jobset("js", rj("a"), rj("b", pod=pod, depends_on="a"), mode="Gang")
    assert reasons(resolve(read(in_turn), rules)) == [Reason.GANG_SPLIT]


def test_e18_a_scheduler_that_knows_no_groups() -> None:
    pod = {"schedulerName": "volcano"}
    part = jobset("js", rj("a", mode="Gang"), rj("b", mode="Gang", pod=pod))
    assert reasons(resolved(part)) == [Reason.UNSUPPORTED_SCHEDULER]
    assert sizes(part) == {"a": 1}
    assert planned(jobset("js", rj("a", pod=pod), rj("b", pod=pod), mode="Gang")) is None
    rules = ClusterRules(gang_schedulers=frozenset({"volcano"}))
    assert resolve(read(jobset("js", rj("b", mode="Gang", pod=pod))), rules).stamps[0] is not None


def test_e19_exclusive_placement_with_followers() -> None:
    notes = {EXCLUSIVE: "rack"}
    on_jobset = jobset("js", rj("a", 2, 1, 1), rj("w", 2, 2, 2), mode="Gang", annotations=notes)
    assert refused(resolved(on_jobset)) == [(f"metadata.annotations[{EXCLUSIVE}]", ErrorKind.FORBIDDEN)]
    on_template = jobset("js", rj("a"), rj("w", 1, 2, 2, mode="ReplicatedGang", annotations=notes))
    path = f"spec.replicatedJobs[1].template.metadata.annotations[{EXCLUSIVE}]"
    assert refused(resolved(on_template)) == [(path, ErrorKind.FORBIDDEN)]
    leaders_only = jobset("js", rj("a", 4, 1, 1, mode="Gang", annotations=notes), rj("w", 1, 2, 2))
    assert sizes(leaders_only) == {"a": 4}
    selected = jobset("js", rj("w", 2, 2, 2), mode="Gang", annotations={**notes, NODE_SELECTOR: "true"})
    assert sizes(selected) == {"jobset": 4}


def test_e20_created_suspended() -> None:
    raw = stored(jobset("js", rj("w", 1, 4, 4, mode="Gang"), uid="u", suspend=True))
    seen = assessed(raw)
    assert (seen.lifecycle, seen.notices) == (Lifecycle.RETIRED, ())
    reference = reference_of_job(child_job(raw, 0, 0))
    assert seen.plan is not None
    assert [job.reference for job in seen.plan.jobs()] == [reference]


def test_e25_managed_by_another_controller() -> None:
    raw = jobset("js", rj("w", mode="nonsense"), mode="Gang", managedBy="kueue.x-k8s.io/multikueue")
    resolution = resolved(raw)
    assert (resolution.stamps, resolution.errors) == ((None,), ())
    assert [(notice.reason, "kueue.x-k8s.io/multikueue" in notice.message) for notice in resolution.notices] == [
        (Reason.NOT_GANGED, True)
    ]
    assert assessed(raw).lifecycle is Lifecycle.UNTOUCHED
    assert resolved(jobset("js", rj("w"), managedBy="kueue.x-k8s.io/multikueue")).notices == ()
    own = jobset("js", rj("w", mode="Gang"), managedBy="jobset.sigs.k8s.io/jobset-controller")
    assert sizes(own) == {"w": 1}


def test_e26_generate_name() -> None:
    raw = jobset("", rj("w", 1, 2, 2, mode="Gang"))
    raw["metadata"] = {"generateName": "js-", "namespace": "t"}
    after = stored(raw)
    after["metadata"] |= {"name": "js-x7k2p", "uid": "u"}
    plan = assessed(after).plan
    assert plan is not None
    assert plan.workload.name.startswith("js-x7k2p-")
    assert [job.reference for job in plan.jobs()] == [reference_of_job(child_job(after, 0, 0))]


@each("scope", ["jobset", "rj", "job"])
def test_e26_an_update_may_drop_generate_name(scope: str) -> None:
    """The API server keeps the metadata of an update as it is given, and a manifest of the stored JobSet has a name."""
    workers = rj("w", 1, 2, 2, mode={"jobset": None, "rj": "Gang", "job": "ReplicatedGang"}[scope])
    raw = jobset("", workers, mode="Gang" if scope == "jobset" else None)
    raw["metadata"] |= {"generateName": "js-"}
    after = stored(raw)
    after["metadata"] |= {"name": "js-x7k2p", "uid": "u"}
    before = assessed(after)
    del after["metadata"]["generateName"]
    assessment = assessed(after)
    assert assessment.notices == before.notices == ()
    assert assessment.plan is not None
    assert before.plan is not None
    assert assessment.plan.groups == before.plan.groups


def test_e27_group_name() -> None:
    raw = jobset("js", rj("a", 1, 2, 2), rj("b", 1, 3, 3), mode="Gang")
    grouped = jobset("js", {**rj("a", 1, 2, 2), "groupName": "x"}, {**rj("b", 1, 3, 3), "groupName": "y"}, mode="Gang")
    assert some_plan(grouped).groups == some_plan(raw).groups


def test_e28_off_next_to_a_jobset_wide_gang() -> None:
    raw = jobset("js", rj("a", 1, 2, 2), rj("b", 1, 3, 3, mode="Off"), mode="Gang")
    assert sizes(raw) == {"jobset": 2}
    assert [job.reference is None for job in some_plan(raw).jobs()] == [False, True]


def test_e29_off_at_the_jobset() -> None:
    assert sizes(jobset("js", rj("a", 2, 2, 2, mode="ReplicatedGang"), rj("b"), mode="Off")) == {"a": 2}


def test_e30_sequenced_startup_splits_a_jobset_wide_gang() -> None:
    chain = jobset("js", rj("a"), rj("b", mode="Off", depends_on="a"), rj("c", 1, 2, 2, depends_on="b"), mode="Gang")
    assert reasons(resolved(chain)) == [Reason.GANG_SPLIT]
    assert sizes(chain) == {"a": 1, "c": 2}
    unlinked = jobset("js", rj("a", mode="Off"), rj("b", depends_on="a"), rj("c", depends_on="a"), mode="Gang")
    assert reasons(resolved(unlinked)) == []
    assert sizes(unlinked) == {"jobset": 2}
    circle = [rj("x", mode="Off", depends_on="y"), rj("y", mode="Off", depends_on="x")]
    assert reasons(resolved(jobset("js", *circle, rj("a", depends_on="x"), rj("b"), mode="Gang"))) == []
    own_groups = jobset("js", rj("a", mode="Gang"), rj("b", 2, mode="ReplicatedGang", depends_on="a"))
    assert reasons(resolved(own_groups)) == []
    rejected = jobset("js", rj("a"), rj("b", depends_on="a"), mode="Gang", options='{"sequenced":"reject"}')
    assert refused(resolved(rejected)) == [
        ("metadata.annotations[gangctl.dev/gang-options].sequenced", ErrorKind.INVALID)
    ]


def test_e31_one_replicated_job_in_order() -> None:
    raw = jobset("js", rj("a", 2, 2, 2), mode="Gang", startupPolicy={"startupPolicyOrder": "InOrder"})
    assert reasons(resolved(raw)) == []
    assert sizes(raw) == {"a": 4}


@each(
    ("generation", "words"), [(Generation.V1BETA1, "MinCount follows the pods"), (Generation.V1ALPHA2, "waits until")]
)
def test_a_gang_that_may_continue_with_fewer_pods_has_a_notice(generation: Generation, words: str) -> None:
    worker = rj("w", 1, 4, 4, mode="Gang")
    worker["template"]["spec"]["backoffLimitPerIndex"] = 1
    resolution = resolved(jobset("js", worker), generation)
    (notice,) = resolution.notices
    assert notice.reason is Reason.GANG_MAY_SHRINK
    assert 'replicated jobs "w" set backoffLimitPerIndex' in notice.message
    assert words in notice.message
    alone = rj("w", 1, 1, 1, mode="Gang")
    alone["template"]["spec"]["successPolicy"] = {"rules": [{"succeededCount": 1}]}
    assert resolved(jobset("js", alone), generation).notices == ()


def test_a_jobs_own_gang_beside_one_of_the_jobset_is_refused() -> None:
    worker = rj("w", 1, 4, 4)
    worker["template"]["spec"]["scheduling"] = {"policy": {"gang": {}}}
    (error,) = resolved(jobset("js", rj("a"), worker, mode="Gang")).errors
    assert error.path == "spec.replicatedJobs[1].template.spec.scheduling"
    assert 'set gangctl.dev/gang-mode: "Off"' in error.detail
    off = rj("w", mode="Off")
    off["template"]["spec"]["scheduling"] = {}
    assert resolved(jobset("js", rj("a"), off, mode="Gang")).errors == ()
    assert resolved(jobset("js", worker)).errors == ()
