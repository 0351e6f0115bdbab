"""What the webhooks get to know about queues, and which JobSets a change of them affects."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.api.jobset import read_jobset
from gangctl.controllers.queues.view import ALL, Affected
from gangctl.kueue.objects import ELSEWHERE
from tests.controllers.queues.ground import Ground
from tests.steps import steps


@pytest.fixture
def ground() -> Ground:
    return Ground()


def warnings(ground: Ground, pods: int, queue: str = "q", **spec: Any) -> tuple[str, ...]:
    raw = ground.jobset("js", pods, queue, **spec)
    errors, reported = ground.view.check(raw, read_jobset(raw)[0], "t")
    assert errors == ()
    return reported


def test_a_jobset_that_fits_gets_no_warning(ground: Ground) -> None:
    assert warnings(ground, 4) == ()


def test_a_jobset_that_never_fits_gets_a_warning_and_is_not_refused(ground: Ground) -> None:
    (warning,) = warnings(ground, 5)
    assert warning.startswith("NeverFits: ")
    assert '"cq"' in warning
    assert "cpu" in warning


def test_a_missing_queue_gives_one_warning(ground: Ground) -> None:
    (warning,) = warnings(ground, 1, "nowhere")
    assert warning.startswith('QueueBlocked: LocalQueue "nowhere" does not exist')


def test_a_stopped_queue_gives_a_warning(ground: Ground) -> None:
    ground.queue("cq", 4, stopPolicy="Hold")
    (warning,) = warnings(ground, 1)
    assert "QueueBlocked" in warning
    assert "stopped" in warning


def test_a_jobset_that_waits_for_used_quota_gets_no_warning(ground: Ground) -> None:
    ground.queue("cq", 1)
    ground.workload("other", reserved=True)
    assert ground.view.fit(ground.jobset("js", 1), "t")["verdict"] == "not-now"
    assert warnings(ground, 1) == ()


def test_policies_do_not_learn_what_runs_in_other_namespaces(ground: Ground) -> None:
    """Messages of policies are for the users of a JobSet."""
    ground.queue("cq", 1)
    ground.workload("other", reserved=True)
    ground.queue_key("q", "cq", "u")
    raw = ground.jobset("js", 1)
    elsewhere = ground.view.fit({**raw, "metadata": {**raw["metadata"], "namespace": "u"}}, "u")
    assert elsewhere["message"].endswith(f'in use by "{ELSEWHERE}".')
    assert (elsewhere["holders"][0]["name"], elsewhere["holders"][0]["namespace"]) == (ELSEWHERE, "")
    assert "t/other" not in str(elsewhere)
    assert 'in use by "t/other"' in ground.view.fit(raw, "t")["message"]


def test_quota_reserved_by_the_jobset_itself_counts_as_free(ground: Ground) -> None:
    ground.queue("cq", 1)
    ground.workload("js", reserved=True)
    stored = ground.jobset("js", 1)
    assert ground.view.fit(stored, "t", new=False)["verdict"] == "fits"
    assert ground.view.fit(stored, "t")["verdict"] == "not-now", "to whoever comes, it is in use again"


@pytest.mark.parametrize("kind", ["local_queues", "cluster_queues", "cohorts", "limit_ranges", "flavors"])
def test_an_unreadable_source_turns_never_into_unknown(ground: Ground, kind: str) -> None:
    source = getattr(ground.sources, kind)
    source.informer.synced.clear()
    source.restarted("ForbiddenError")
    report = ground.view.fit(ground.jobset("js", 5), "t")
    assert report["verdict"] == "unknown"
    assert any("cannot be read (forbidden)" in each for each in report["unknown"])
    assert warnings(ground, 5) == ()


def test_without_kueues_configuration_there_is_no_never(ground: Ground) -> None:
    ground.drop(ground.sources.configuration, "kueue-manager-config", "kueue-system")
    assert ground.view.fit(ground.jobset("js", 5), "t")["verdict"] == "unknown"


def test_verdicts_are_unknown_before_kueue_was_looked_up() -> None:
    ground = Ground(present=None)
    assert not ground.view.present
    assert ground.view.fit(ground.jobset("js", 5), "t")["verdict"] == "unknown"
    ground.sources.presence.present = False
    report = ground.view.fit(ground.jobset("js", 5), "t")
    assert (report["verdict"], report["reason"]) == ("fits", "NotQueued")


def test_limit_ranges_of_the_namespace_change_the_requests(ground: Ground) -> None:
    limit = {"type": "Container", "min": {"cpu": "2"}}
    ground.put(ground.sources.limit_ranges, "least", "t", spec={"limits": [limit]})
    assert ground.view.fit(ground.jobset("js", 1), "t")["verdict"] == "never"
    assert ground.affected[-1].namespaces == {"t"}
    ground.drop(ground.sources.limit_ranges, "least", "t")
    assert ground.view.fit(ground.jobset("js", 1), "t")["verdict"] == "fits"


def test_facts_of_kueue_follow_its_definition_and_configuration(ground: Ground) -> None:
    assert (ground.view.facts.podset_limit, ground.view.facts.pods_ready_seconds) == (18, 1800)
    ground.sources.presence.podset_limit = 10
    assert ground.view.facts.pods_ready_seconds is None
    ground.drop(ground.sources.configuration, "kueue-manager-config", "kueue-system")
    assert ground.view.facts.pods_ready_seconds is None


def test_workloads_are_found_by_the_uid_of_their_owner(ground: Ground) -> None:
    ground.workload("js", reserved=True)
    assert [each.name for each in ground.view.workloads_of("uid-js")] == ["jobset-js"]
    assert ground.view.workloads_of("uid-of-another") == []


def concerned(ground: Ground) -> frozenset[str]:
    """ClusterQueues that the changes since affect."""
    found = Affected()
    while ground.affected:
        found |= ground.affected.pop()
    assert not found.every_jobset
    return found.cluster_queues


def test_a_change_of_quota_affects_only_the_queues_that_share_it(ground: Ground) -> None:
    ground.queue("a", 1, "left")
    ground.queue("b", 1, "left")
    ground.queue("c", 1, "right")
    ground.affected.clear()
    ground.queue("a", 2, "left")
    assert concerned(ground) == {"a", "b"}
    ground.queue("a", 2, "right")
    assert concerned(ground) == {"a", "b", "c"}
    ground.drop(ground.sources.cluster_queues, "a")
    assert concerned(ground) == {"a", "c"}


def test_a_change_of_pending_counts_affects_no_jobset(ground: Ground) -> None:
    ground.queue("cq", 4, pending=7)
    assert ground.affected == []


def test_a_moved_cohort_affects_the_old_and_the_new_tree(ground: Ground) -> None:
    ground.queue("a", 1, "left")
    ground.queue("b", 1, "right")
    ground.put(ground.sources.cohorts, "left", spec={"parentName": "top"})
    ground.affected.clear()
    ground.put(ground.sources.cohorts, "right", spec={"parentName": "top"})
    assert concerned(ground) == {"a", "b"}
    ground.drop(ground.sources.cohorts, "right")
    assert concerned(ground) == {"a", "b"}
    ground.put(ground.sources.cohorts, "elsewhere", spec={})
    assert concerned(ground) == frozenset()


def test_a_flavor_affects_the_queues_that_name_it(ground: Ground) -> None:
    ground.flavor("other", zone="z")
    assert concerned(ground) == frozenset()
    ground.flavor("f", zone="z")
    assert concerned(ground) == {"cq"}


def test_reserved_or_released_quota_affects_only_its_jobset(ground: Ground) -> None:
    ground.workload("js", reserved=False)
    assert ground.affected == []
    ground.workload("js", reserved=True)
    assert ground.affected.pop() == Affected(jobsets=frozenset({("t", "js")}))
    assert ground.affected == []
    ground.workload("js", reserved=False)
    assert ground.affected.pop() == Affected(jobsets=frozenset({("t", "js")}))


def test_with_a_multikueue_check_no_verdict_is_never(ground: Ground) -> None:
    ground.queue("cq", 4, admissionChecksStrategy={"admissionChecks": [{"name": "elsewhere"}]})
    assert ground.view.fit(ground.jobset("js", 5), "t")["verdict"] == "never"
    ground.affected.clear()
    ground.put(ground.sources.checks, "other", spec={"controllerName": "example.com/c"})
    assert concerned(ground) == frozenset()
    ground.put(ground.sources.checks, "elsewhere", spec={"controllerName": "kueue.x-k8s.io/multikueue"})
    assert concerned(ground) == {"cq"}
    assert ground.view.fit(ground.jobset("js", 5), "t")["verdict"] == "unknown"


def test_a_jobset_is_evaluated_again_when_its_priority_class_appears_or_disappears(ground: Ground) -> None:
    raw = ground.jobset("js", 1)
    raw["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    assert ground.view.ever(raw, "t")["reason"] == "QueueBlocked"
    ground.affected.clear()
    ground.put(ground.sources.priorities, "high", value=1)
    assert ground.affected.pop() == ALL
    assert ground.view.ever(raw, "t")["verdict"] == "fits"
    # By its value Kueue orders what waits.
    ground.put(ground.sources.priorities, "high", value=2)
    assert ground.affected == []
    ground.drop(ground.sources.priorities, "high")
    assert ground.affected.pop() == ALL


def test_the_cost_of_admission_does_not_grow_with_the_workloads(ground: Ground) -> None:
    ground.workload("other", reserved=True, queue="cq")
    raw = ground.jobset("js", 4)
    assert ground.view.fit(raw, "t")["verdict"] == "not-now"
    report = ground.view.ever(raw, "t")
    assert (report["verdict"], report["holders"]) == ("fits", [])
    assert ground.view.ever(ground.jobset("js", 5), "t")["verdict"] == "never"


def test_the_cost_of_a_change_does_not_grow_with_the_workloads_of_a_queue_without_a_head() -> None:
    def work(workloads: int) -> int:
        ground = Ground()

        def wait(number: int) -> None:
            metadata = {"name": f"w{number}", "namespace": "t", "uid": f"w{number}"}
            ground.sources.workloads.informer._upsert({"metadata": metadata, "spec": {"queueName": "q"}, "status": {}})

        for number in range(workloads):
            wait(number)
        queue = ground.view.cluster_queue("cq")
        assert queue is not None
        assert ground.view.heads.of(queue) is None
        return steps(lambda: wait(workloads))

    assert work(200) < 1.1 * work(100)
