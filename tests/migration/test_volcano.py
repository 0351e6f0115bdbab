"""Volcano: one group per Job by an annotation, and what else it reads."""

from __future__ import annotations

from typing import Any

from gangctl.api.meta import GANGS
from gangctl.migration.draft import System
from tests.jobsets import jobset, rj
from tests.migration.inputs import (
    VOLCANO_MIN,
    VOLCANO_QUEUE,
    converted,
    marked,
    notes,
    pod_group,
    problems,
    scheduled_by,
)
from tests.rows import each

VOLCANO = System.VOLCANO
KUEUE = "kueue.x-k8s.io/queue-name"
MODE_KEY = "volcano.sh/network-topology-mode"
TIER_KEY = "volcano.sh/network-topology-highest-tier"


def per_job(name: str, minimum: str | None, *numbers: int) -> dict[str, Any]:
    """A ReplicatedJob whose Jobs have a minimum for Volcano."""
    return scheduled_by(VOLCANO, rj(name, *numbers, annotations={VOLCANO_MIN: minimum} if minimum else None))


class TestPerJob:
    def test_a_minimum_on_the_job_template_is_a_gang_per_replica(self) -> None:
        raw = jobset("js", per_job("a", "4", 3, 4, 4), per_job("b", "2", 1, 2, 2))
        expected = jobset("js", rj("a", 3, 4, 4, mode="ReplicatedGang"), rj("b", 1, 2, 2, mode="Gang"))
        assert converted(VOLCANO, raw) == [expected]

    @each("level", ["JobSet", "Job"])
    def test_a_label_is_no_minimum(self, level: str) -> None:
        """Volcano reads the annotations of Jobs."""
        raw = marked(jobset("js", per_job("a", None, 3, 4, 4)), level, "labels", {VOLCANO_MIN: "2"})
        assert converted(VOLCANO, raw) == [jobset("js", rj("a", 3, 4, 4))]
        texts = [text for _, _, text in notes(VOLCANO, raw)]
        assert f"removed {VOLCANO_MIN}, which Volcano reads in annotations only" in texts

    def test_one_job_is_the_jobset(self) -> None:
        assert converted(VOLCANO, jobset("js", per_job("a", "4", 1, 4, 4))) == [
            jobset("js", rj("a", 1, 4, 4), mode="Gang")
        ]

    def test_without_a_minimum_volcano_makes_no_gang(self) -> None:
        raw = jobset("js", per_job("a", "4", 3, 4, 4), per_job("b", None, 1, 2, 2))
        assert converted(VOLCANO, raw) == [jobset("js", rj("a", 3, 4, 4, mode="ReplicatedGang"), rj("b", 1, 2, 2))]
        ((_, path, text),) = notes(VOLCANO, raw)
        assert path == "spec.replicatedJobs[1].template.spec.template.spec.schedulerName"
        assert text.startswith('Volcano makes no gang of the pods of "b"')

    def test_a_minimum_of_some_pods_is_that_of_each_gang(self) -> None:
        (value,) = converted(VOLCANO, jobset("js", per_job("a", "3", 3, 4, 4)))
        gangs = '[{"name":"a","replicatedJobs":["a"],"perReplica":true,"minCount":3}]'
        assert value == jobset("js", rj("a", 3, 4, 4), annotations={GANGS: gangs})

    @each(("minimum", "words"), [("5", "never start"), ("0", "above 0"), ("x", "above 0")])
    def test_another_minimum_is_refused(self, minimum: str, words: str) -> None:
        ((_, message),) = problems(VOLCANO, jobset("js", per_job("a", minimum, 3, 4, 4)))
        assert message.startswith(f"spec.replicatedJobs[0].template.metadata.annotations[{VOLCANO_MIN}]: ")
        assert words in message

    def test_a_minimum_per_job_beside_a_named_group_is_converted(self) -> None:
        raw = jobset("js", per_job("a", "4", 3, 4, 4), scheduled_by(VOLCANO, rj("b"), "g"))
        expected = jobset("js", rj("a", 3, 4, 4, mode="ReplicatedGang"), rj("b", mode="Gang"))
        assert converted(VOLCANO, raw, pod_group(VOLCANO, "g", 1)) == [expected]


class TestOnTheJobSet:
    """Volcano never sees an annotation there, but what is meant is plain."""

    def test_a_minimum_of_all_pods_is_a_gang(self) -> None:
        raw = jobset("js", per_job("a", None, 2, 2, 2), per_job("b", None), annotations={VOLCANO_MIN: "5"})
        assert converted(VOLCANO, raw) == [jobset("js", rj("a", 2, 2, 2), rj("b"), mode="Gang")]
        ((_, path, text),) = notes(VOLCANO, raw)
        assert path == f"metadata.annotations[{VOLCANO_MIN}]"
        assert "were no gang so far" in text

    def test_a_minimum_of_some_pods_of_the_jobset_is_that_of_the_gang(self) -> None:
        raw = jobset("js", per_job("a", None, 2, 2, 2), annotations={VOLCANO_MIN: "2"})
        gangs = '[{"name":"a","replicatedJobs":["a"],"minCount":2}]'
        assert converted(VOLCANO, raw) == [jobset("js", rj("a", 2, 2, 2), annotations={GANGS: gangs})]
        assert "2 of them start together" in notes(VOLCANO, raw)[0][2]


class TestOtherWords:
    def test_a_queue_is_removed_with_a_note(self) -> None:
        entry = scheduled_by(VOLCANO, rj("a", annotations={VOLCANO_MIN: "1"}), annotations={VOLCANO_QUEUE: "research"})
        raw = jobset("js", entry)
        assert converted(VOLCANO, raw) == [jobset("js", rj("a"), mode="Gang")]
        ((_, path, text),) = notes(VOLCANO, raw)
        assert path == "metadata"
        assert text.startswith('queue "research" of Volcano is left out; --queue NAME')

    def test_the_queue_of_a_pod_group_is_noted(self) -> None:
        raw, group = jobset("js", scheduled_by(VOLCANO, rj("a"), "g")), pod_group(VOLCANO, "g", 1, queue="research")
        assert any('queue "research"' in text for _, _, text in notes(VOLCANO, raw, group))

    @each(
        ("own", "remark"),
        [
            ("high", ""),
            ("low", '; write its priorityClassName "high" into the pod templates'),
            ("", '; write its priorityClassName "high" into the pod templates'),
        ],
    )
    def test_the_priority_class_of_a_pod_group_is_that_of_pod_templates(self, own: str, remark: str) -> None:
        pod = {"priorityClassName": own} if own else None
        raw = jobset("js", *(scheduled_by(VOLCANO, rj(name, pod=pod), "g") for name in "ab"))
        group = pod_group(VOLCANO, "g", 2, priorityClassName="high")
        texts = [text for position, _, text in notes(VOLCANO, raw, group) if position == 1]
        assert texts == [f'dropped Volcano PodGroup "g": gangctl makes its own{remark}']

    def test_the_queue_option_sets_a_queue_of_kueue(self) -> None:
        raw = jobset("js", per_job("a", "1"))
        (value,) = converted(VOLCANO, raw, queue="team")
        assert value["metadata"]["labels"] == {KUEUE: "team"}
        raw["metadata"]["labels"] = {KUEUE: "other"}
        assert problems(VOLCANO, raw, queue="team")[0][1].startswith(
            f'metadata.labels[{KUEUE}]: is "other", not "team"'
        )
        assert converted(VOLCANO, raw)[0]["metadata"]["labels"] == {KUEUE: "other"}

    def test_only_converted_jobsets_get_the_queue(self) -> None:
        other = jobset("other", rj("a", mode="Gang"))
        assert converted(VOLCANO, other, jobset("js", per_job("a", "1")), queue="team")[0] == other

    def test_other_keys_of_volcano_are_removed_with_a_note(self) -> None:
        entry = scheduled_by(
            VOLCANO, rj("a", annotations={VOLCANO_MIN: "1"}), annotations={"volcano.sh/preemptable": "true"}
        )
        ((_, path, text),) = notes(VOLCANO, jobset("js", entry))
        assert path == "spec.replicatedJobs[0].template.spec.template.metadata.annotations[volcano.sh/preemptable]"
        assert text == "removed volcano.sh/preemptable, which only Volcano reads"

    @each("values", [{MODE_KEY: "hard"}, {TIER_KEY: "1"}, {MODE_KEY: "Hard", TIER_KEY: "1"}])
    def test_a_required_topology_is_refused(self, values: dict[str, str]) -> None:
        entry = scheduled_by(VOLCANO, rj("a", annotations={VOLCANO_MIN: "1"}), annotations=values)
        for _, message in problems(VOLCANO, jobset("js", entry)):
            assert "HyperNodes" in message

    def test_a_preferred_topology_is_removed(self) -> None:
        values = {MODE_KEY: "soft", TIER_KEY: "1"}
        raw = jobset("js", scheduled_by(VOLCANO, rj("a", annotations={VOLCANO_MIN: "1"}), annotations=values))
        assert converted(VOLCANO, raw) == [jobset("js", rj("a"), mode="Gang")]
        assert len(notes(VOLCANO, raw)) == 2

    @each(
        ("spec", "field"),
        [
            ({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}, "networkTopology"),
            ({"networkTopology": {"highestTierAllowed": 1}}, "networkTopology"),
            ({"minTaskMember": {"a": 1}}, "minTaskMember"),
            ({"subGroupPolicy": [{"name": "x"}]}, "subGroupPolicy"),
        ],
    )
    def test_other_fields_of_a_pod_group_are_noted(self, spec: dict[str, Any], field: str) -> None:
        raw = jobset("js", scheduled_by(VOLCANO, rj("a"), "g"))
        ((position, message),) = problems(VOLCANO, raw, pod_group(VOLCANO, "g", 1, **spec))
        assert position == 1
        assert message.startswith(f"spec.{field}: ")


class TestRefused:
    def test_a_minimum_on_the_pods_is_refused(self) -> None:
        raw = jobset("js", scheduled_by(VOLCANO, rj("a"), annotations={VOLCANO_MIN: "1"}))
        assert "reads this on Jobs" in problems(VOLCANO, raw)[0][1]

    def test_pods_of_another_scheduler_in_a_group_are_refused(self) -> None:
        raw = jobset("js", scheduled_by(VOLCANO, rj("a"), "g"), scheduled_by(VOLCANO, rj("b"), "g", scheduler="mine"))
        found = problems(VOLCANO, raw, pod_group(VOLCANO, "g", 2))
        assert found[0][1].startswith('spec.replicatedJobs[1].template.spec.template.spec.schedulerName: is "mine"')

    def test_a_jobset_without_pods_of_volcano_is_refused(self) -> None:
        raw = jobset("js", rj("a"), annotations={VOLCANO_QUEUE: "q"})
        assert problems(VOLCANO, raw)[0][1].startswith("spec.replicatedJobs: no pod template has schedulerName volcano")

    def test_a_replicated_job_of_another_scheduler_is_left_alone(self) -> None:
        raw = jobset("js", per_job("a", "2", 2, 2, 2), scheduled_by(VOLCANO, rj("b"), scheduler="mine"))
        (value,) = converted(VOLCANO, raw)
        assert value["spec"]["replicatedJobs"][1] == raw["spec"]["replicatedJobs"][1]


def test_a_shared_gpu_is_refused() -> None:
    """Volcano writes into the pod which part of which GPU it has: without that its device plugin fails the pod."""
    entry = per_job("a", "4", 1, 4, 4)
    (container,) = entry["template"]["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000"}}
    ((_, message),) = problems(VOLCANO, jobset("js", entry))
    assert message.startswith("spec.replicatedJobs[0].template.spec.template.spec: ")
    assert "volcano.sh/vgpu-memory, volcano.sh/vgpu-number, and only Volcano shares a GPU" in message
