"""KAI: a JobSet is one gang of everything, unless annotations ask for fewer."""

from __future__ import annotations

import json
from typing import Any

from gangctl.api.meta import GANGS
from gangctl.migration.draft import System
from tests.gang.pipeline import some_plan
from tests.jobsets import OPTIONS, jobset, rj
from tests.migration.inputs import (
    KAI_MIN,
    KAI_QUEUE,
    KAI_REQUIRED,
    KAI_TOPOLOGY,
    converted,
    marked,
    notes,
    problems,
    scheduled_by,
)
from tests.rows import each

KAI = System.KAI
RACK = "example.com/rack"
IN_DC = {KAI_TOPOLOGY: "dc"}
PREFERRED = "kai.scheduler/topology-preferred-placement"


def kai(*entries: dict[str, Any], labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """A JobSet of KAI."""
    raw = jobset("js", *(scheduled_by(KAI, each) for each in entries), **fields)
    if labels:
        raw["metadata"]["labels"] = labels
    return raw


class TestMapping:
    def test_a_jobset_is_one_gang(self) -> None:
        raw = kai(rj("a"), rj("b", 2, 2, 2), labels={KAI_QUEUE: "research"})
        assert converted(KAI, raw) == [jobset("js", rj("a"), rj("b", 2, 2, 2), mode="Gang")]
        ((_, _, text),) = notes(KAI, raw)
        assert text.startswith('queue "research" of KAI is left out')

    @each("minimum", ["2", "7"])
    def test_all_replicated_jobs_are_needed(self, minimum: str) -> None:
        raw = kai(rj("a"), rj("b"), annotations={KAI_MIN: minimum})
        assert converted(KAI, raw) == [jobset("js", rj("a"), rj("b"), mode="Gang")]

    def test_a_minimum_of_one_replicated_job_is_a_gang_each(self) -> None:
        raw = kai(rj("a"), rj("b", 3), annotations={KAI_MIN: "1"})
        assert converted(KAI, raw) == [jobset("js", rj("a", mode="Gang"), rj("b", 3, mode="Gang"))]
        assert "each becomes a gang of its own" in notes(KAI, raw)[0][2]

    def test_in_order_each_with_a_minimum_is_a_gang_of_its_own(self) -> None:
        raw = kai(
            rj("a"), rj("b", 1, 4, 4, annotations={KAI_MIN: "3"}), startupPolicy={"startupPolicyOrder": "InOrder"}
        )
        (value,) = converted(KAI, raw)
        assert json.loads(value["metadata"]["annotations"][GANGS]) == [A, {**B, "minCount": 3}]

    def test_in_order_is_split_by_gangctl_as_by_kai(self) -> None:
        raw = kai(rj("a"), rj("b"), startupPolicy={"startupPolicyOrder": "InOrder"})
        assert converted(KAI, raw)[0]["metadata"]["annotations"] == {"gangctl.dev/gang-mode": "Gang"}
        assert notes(KAI, raw)[0][2].startswith("Startup is sequenced")

    @each("minimum", ["8", "3"])
    def test_a_minimum_of_all_pods_of_a_replica_is_a_gang(self, minimum: str) -> None:
        """Counted with completions or, as KAI does, without."""
        raw = kai(rj("a", 2, 8, 3, annotations={KAI_MIN: minimum}))
        assert converted(KAI, raw) == [jobset("js", rj("a", 2, 8, 3), mode="Gang")]

    def test_a_required_placement_is_the_topology_key(self) -> None:
        raw = kai(rj("a"), rj("b"), annotations={KAI_TOPOLOGY: "dc", KAI_REQUIRED: RACK})
        expected = jobset("js", rj("a"), rj("b"), mode="Gang", options=f'{{"topologyKey":"{RACK}"}}')
        assert converted(KAI, raw) == [expected]
        assert notes(KAI, raw) == []

    def test_a_required_placement_of_the_only_replica_is_the_topology_key(self) -> None:
        raw = kai(rj("a", 1, 4, 4, annotations={KAI_TOPOLOGY: "dc", KAI_REQUIRED: RACK}))
        expected = jobset("js", rj("a", 1, 4, 4), mode="Gang", options=f'{{"topologyKey":"{RACK}"}}')
        assert converted(KAI, raw) == [expected]

    @each("topology", [{}, {KAI_TOPOLOGY: ""}])
    def test_a_required_placement_without_a_topology_is_removed_with_a_note(self, topology: dict[str, str]) -> None:
        """KAI reads both from the same annotations, and ignores one without the other."""
        raw = kai(rj("a", 1, 4, 4, annotations={**topology, KAI_REQUIRED: RACK}), annotations={KAI_TOPOLOGY: "dc"})
        assert converted(KAI, raw) == [jobset("js", rj("a", 1, 4, 4), mode="Gang")]
        ((_, path, text),) = notes(KAI, raw)
        assert path == f"spec.replicatedJobs[0].template.metadata.annotations[{KAI_REQUIRED}]"
        assert text.startswith("KAI ignores it without kai.scheduler/topology beside it")

    def test_a_preferred_placement_and_other_keys_are_removed_with_a_note(self) -> None:
        raw = kai(rj("a"), annotations={PREFERRED: RACK}, labels={"kai.scheduler/preemptibility": "preemptible"})
        assert converted(KAI, raw) == [jobset("js", rj("a"), mode="Gang")]
        texts = [text for _, _, text in notes(KAI, raw)]
        assert any(text.startswith("a preferred placement has no counterpart") for text in texts)
        assert "removed kai.scheduler/preemptibility, which only KAI reads" in texts

    @each(("key", "value"), [(KAI_MIN, "3"), (KAI_REQUIRED, RACK), (PREFERRED, RACK)])
    @each("level", ["JobSet", "Job"])
    def test_a_label_in_the_place_of_an_annotation_has_no_effect(self, key: str, value: str, level: str) -> None:
        raw = marked(kai(rj("a", 1, 4, 4)), level, "labels", {KAI_TOPOLOGY: "dc", key: value})
        assert converted(KAI, raw) == [jobset("js", rj("a", 1, 4, 4), mode="Gang")]
        assert f"removed {key}, which KAI reads in annotations only" in [text for _, _, text in notes(KAI, raw)]

    def test_minimum_and_placement_on_pods_are_removed_with_a_note(self) -> None:
        marks = {KAI_MIN: "3", KAI_REQUIRED: RACK, KAI_TOPOLOGY: "dc"}
        raw = marked(kai(rj("a", 1, 4, 4)), "pod", "annotations", marks)
        assert converted(KAI, raw) == [jobset("js", rj("a", 1, 4, 4), mode="Gang")]
        assert sorted(text for _, _, text in notes(KAI, raw)) == [
            f"removed {key}, which KAI reads on JobSets and Jobs, not on pods" for key in sorted(marks)
        ]

    def test_a_queue_is_a_label(self) -> None:
        raw = kai(rj("a"), annotations={KAI_QUEUE: "research"})
        ((_, _, text),) = notes(KAI, raw)
        assert text == f"removed {KAI_QUEUE}, which KAI reads in labels only"

    def test_the_priority_label_is_kept_with_a_note(self) -> None:
        raw = kai(rj("a"), labels={"priorityClassName": "train"})
        assert converted(KAI, raw)[0]["metadata"]["labels"] == {"priorityClassName": "train"}
        assert 'pod specs say priorityClassName "train"' in notes(KAI, raw)[0][2]


A = {"name": "a", "replicatedJobs": ["a"]}
B = {"name": "b", "replicatedJobs": ["b"]}


@each(
    ("entries", "gangs", "composite"),
    [
        # One Job that needs fewer pods than it has.
        ([rj("a", 1, 8, 8, annotations={KAI_MIN: "6"})], [{**A, "minCount": 6}], False),
        # Each of several Jobs, all of which KAI wants.
        ([rj("a", 2, 4, 4, annotations={KAI_MIN: "3"})], [{**A, "perReplica": True, "minCount": 3}], True),
        (
            [rj("a", 2, annotations={**IN_DC, KAI_REQUIRED: RACK})],
            [{**A, "perReplica": True, "topologyKey": RACK}],
            True,
        ),
        (
            [rj("a", 2, 4, 4, annotations={**IN_DC, KAI_REQUIRED: RACK, KAI_MIN: "3"}), rj("b", 2)],
            [{**A, "perReplica": True, "topologyKey": RACK, "minCount": 3}, B],
            True,
        ),
        ([rj("a", annotations={**IN_DC, KAI_REQUIRED: RACK}), rj("b")], [{**A, "topologyKey": RACK}, B], True),
    ],
)
def test_minimums_and_racks_inside_of_a_gang_are_a_list_of_gangs(
    entries: list[dict[str, Any]], gangs: list[dict[str, Any]], composite: bool
) -> None:
    raw = kai(*entries)
    (value,) = converted(KAI, raw)
    notes_of = value["metadata"]["annotations"]
    assert json.loads(notes_of[GANGS]) == gangs
    assert notes_of.get(OPTIONS) == ('{"composite":true}' if composite else None)
    assert any("Kubernetes 1.37" in text for _, _, text in notes(KAI, raw)) is composite
    assert (some_plan(value).composite is not None) is composite
    assert converted(KAI, value) == [value]


class TestRefused:
    def test_a_minimum_of_some_replicated_jobs_is_refused(self) -> None:
        ((_, message),) = problems(KAI, kai(rj("a"), rj("b"), rj("c"), annotations={KAI_MIN: "2"}))
        assert message.startswith(f"metadata.annotations[{KAI_MIN}]: 2 of 3 replicated jobs cannot be said")

    @each(("minimum", "words"), [("5", "never start"), ("none", "above 0")])
    def test_another_number_of_pods_is_refused(self, minimum: str, words: str) -> None:
        ((_, message),) = problems(KAI, kai(rj("a", 2, 4, 4, annotations={KAI_MIN: minimum})))
        assert message.startswith(f"spec.replicatedJobs[0].template.metadata.annotations[{KAI_MIN}]: ")
        assert words in message

    def test_mixed_schedulers_are_refused(self) -> None:
        raw = jobset("js", scheduled_by(KAI, rj("a")), scheduled_by(KAI, rj("b"), scheduler=""))
        ((_, message),) = problems(KAI, raw)
        assert message.startswith("spec.replicatedJobs[1].template.spec.template.spec.schedulerName: ")

    def test_a_jobset_without_pods_of_kai_is_refused(self) -> None:
        raw = jobset("js", rj("a"), annotations={KAI_MIN: "1"})
        assert "no pod template has schedulerName kai-scheduler" in problems(KAI, raw)[0][1]

    @each(
        ("key", "value", "words"),
        [
            ("pod-group-name", "mine", "PodGroup that KAI did not make"),
            ("gpu-fraction", "0.5", "only KAI shares a GPU"),
            ("gpu-memory", "2000", "only KAI shares a GPU"),
        ],
    )
    def test_features_that_only_kai_has_are_refused(self, key: str, value: str, words: str) -> None:
        raw = jobset("js", scheduled_by(KAI, rj("a"), annotations={key: value}))
        ((_, message),) = problems(KAI, raw)
        assert message.startswith(f"spec.replicatedJobs[0].template.spec.template.metadata.annotations[{key}]: ")
        assert words in message

    def test_features_that_kai_does_not_have_are_refused(self) -> None:
        assert (
            "KAI makes no gang" in problems(KAI, kai(rj("a"), labels={"kai.scheduler/skip-podgrouper": "true"}))[0][1]
        )

    @each(
        ("entries", "fields"),
        [
            ([rj("a", 2, annotations={**IN_DC, KAI_REQUIRED: RACK})], {}),
            ([rj("a"), rj("b", 2, 2, 2)], {"annotations": {KAI_MIN: "1"}}),
            ([rj("a"), rj("b", 2, 2, 2)], {"startupPolicy": {"startupPolicyOrder": "InOrder"}}),
            ([rj("a"), rj("b", 2, 2, 2, depends_on="a")], {}),
        ],
        ids=["domains of replicas", "a gang each", "InOrder", "dependsOn"],
    )
    def test_a_domain_for_all_of_several_gangs_is_refused(
        self, entries: list[dict[str, Any]], fields: dict[str, Any]
    ) -> None:
        raw = marked(kai(*entries, **fields), "JobSet", "annotations", {**IN_DC, KAI_REQUIRED: "zone"})
        ((_, message),) = problems(KAI, raw)
        assert message.startswith(f"metadata.annotations[{KAI_REQUIRED}]: several gangs in one domain")

    def test_a_domain_for_the_only_replicated_job_in_order_is_the_topology_key(self) -> None:
        order = {"startupPolicyOrder": "InOrder"}
        raw = kai(rj("a", 2), annotations={**IN_DC, KAI_REQUIRED: RACK}, startupPolicy=order)
        options = f'{{"topologyKey":"{RACK}"}}'
        assert converted(KAI, raw) == [jobset("js", rj("a", 2), mode="Gang", options=options, startupPolicy=order)]

    def test_replicas_together_beside_another_replicated_job_apart_are_refused(self) -> None:
        raw = kai(rj("a", 2, annotations={**IN_DC, KAI_REQUIRED: RACK}), rj("b"), annotations={KAI_MIN: "1"})
        ((_, message),) = problems(KAI, raw)
        assert message.startswith("spec.replicatedJobs[0]: its replicas start together")

    def test_an_invalid_placement_label_is_refused(self) -> None:
        ((_, message),) = problems(KAI, kai(rj("a"), annotations={**IN_DC, KAI_REQUIRED: "a b"}))
        assert "must be the key of a node label" in message
