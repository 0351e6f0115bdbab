"""PodGroups that people write, and pods that name them: Volcano and coscheduling alike."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gangctl.api.meta import GANGS
from gangctl.migration.draft import System
from tests.cli.manifests import CONFIG_MAP
from tests.jobsets import jobset, rj
from tests.migration.inputs import (
    COSCHEDULING_GROUP,
    GROUPS,
    VOLCANO_GROUP,
    converted,
    notes,
    pod_group,
    problems,
    scheduled_by,
)
from tests.rows import each

pytestmark = pytest.mark.parametrize("system", GROUPS)
POD = "spec.replicatedJobs[0].template.spec.template"


def path_of(system: System, pod: str = POD) -> str:
    _, field, key = GROUPS[system]
    return f"{pod}.metadata.{field}[{key}]"


def two(system: System, first: str | None = "g", second: str | None = "g", **fields: Any) -> dict[str, Any]:
    """Five pods in two ReplicatedJobs."""
    entries = [(rj("a"), first), (rj("b", 2, 2, 2), second)]
    return jobset("js", *(scheduled_by(system, e, g) if g else e for e, g in entries), **fields)


class TestMapping:
    def test_one_group_of_all_is_a_jobset_wide_gang(self, system: System) -> None:
        group = pod_group(system, "g", 5)
        expected = [CONFIG_MAP, jobset("js", rj("a"), rj("b", 2, 2, 2), mode="Gang")]
        assert converted(system, CONFIG_MAP, group, two(system)) == expected

    def test_a_group_of_some_leaves_the_others_out(self, system: System) -> None:
        raw = jobset("js", scheduled_by(system, rj("a"), "g"), rj("d"), scheduled_by(system, rj("b", 2, 2, 2), "g"))
        expected = jobset("js", rj("a"), rj("d", mode="Off"), rj("b", 2, 2, 2), mode="Gang")
        assert converted(system, raw, pod_group(system, "g", 5)) == [expected]

    def test_a_minimum_below_all_pods_is_that_of_the_gang(self, system: System) -> None:
        (value,) = converted(system, two(system), pod_group(system, "g", 3))
        assert value == jobset(
            "js",
            rj("a"),
            rj("b", 2, 2, 2),
            annotations={GANGS: '[{"name":"a","replicatedJobs":["a","b"],"minCount":3}]'},
        )
        assert converted(system, value) == [value]

    def test_a_gang_of_two_replicated_jobs_beside_another_is_a_list(self, system: System) -> None:
        entries = [scheduled_by(system, rj(name), group) for name, group in (("a", "g"), ("b", "g"), ("c", "h"))]
        (value,) = converted(system, jobset("js", *entries), pod_group(system, "g", 2), pod_group(system, "h", 1))
        assert value == jobset(
            "js",
            *(rj(name) for name in "abc"),
            annotations={GANGS: '[{"name":"a","replicatedJobs":["a","b"]},{"name":"c","replicatedJobs":["c"]}]'},
        )

    def test_a_group_each_is_a_gang_each(self, system: System) -> None:
        groups = [pod_group(system, "g", 1), pod_group(system, "h", 4)]
        expected = jobset("js", rj("a", mode="Gang"), rj("b", 2, 2, 2, mode="Gang"))
        assert converted(system, two(system, second="h"), *groups) == [expected]

    def test_a_group_of_one_of_two_replicated_jobs_is_a_gang(self, system: System) -> None:
        expected = jobset("js", rj("a"), rj("b", 2, 2, 2, mode="Gang"))
        assert converted(system, two(system, first=None), pod_group(system, "g", 4)) == [expected]

    def test_the_only_replicated_job_is_the_jobset(self, system: System) -> None:
        raw = jobset("js", scheduled_by(system, rj("a", 3, 2, 2), "g"))
        assert converted(system, raw, pod_group(system, "g", 6)) == [jobset("js", rj("a", 3, 2, 2), mode="Gang")]

    def test_pods_count_as_they_exist_at_once(self, system: System) -> None:
        raw = jobset("js", scheduled_by(system, rj("a", 2, 8, 3), "g"))
        assert converted(system, raw, pod_group(system, "g", 6)) == [jobset("js", rj("a", 2, 8, 3), mode="Gang")]

    def test_other_fields_are_kept(self, system: System) -> None:
        raw = two(system, annotations={"team": "ml"}, network={"enableDNSHostnames": True})
        raw["metadata"]["labels"] = {"x": "y"}
        raw["status"] = {"restarts": 1}
        pod = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        pod["metadata"].setdefault("labels", {})["app"] = "train"
        (value,) = converted(system, raw, pod_group(system, "g", 5))
        expected = copy.deepcopy(raw)
        expected["metadata"]["annotations"]["gangctl.dev/gang-mode"] = "Gang"
        for entry in expected["spec"]["replicatedJobs"]:
            template = entry["template"]["spec"]["template"]
            del template["spec"]["schedulerName"]
            del template["metadata"][GROUPS[system][1]][GROUPS[system][2]]
            template["metadata"] = {k: v for k, v in template["metadata"].items() if v}
            if not template["metadata"]:
                del template["metadata"]
        assert value == expected

    def test_two_replicated_jobs_that_are_one_object_by_an_alias(self, system: System) -> None:
        template = scheduled_by(system, rj("x"), "g")["template"]
        raw = jobset("js", {"name": "a", "template": template}, {"name": "b", "template": template})
        plain = rj("x")["template"]
        expected = jobset("js", {"name": "a", "template": plain}, {"name": "b", "template": plain}, mode="Gang")
        assert converted(system, raw, pod_group(system, "g", 2)) == [expected]

    def test_same_names_in_two_namespaces(self, system: System) -> None:
        objects = []
        for namespace in ("x", "y"):
            objects.append(two(system, namespace=namespace))
            objects.append(pod_group(system, "g", 5, namespace))
        first, second = converted(system, *objects)
        assert [each["metadata"]["namespace"] for each in (first, second)] == ["x", "y"]
        assert first["metadata"]["annotations"] == second["metadata"]["annotations"]


class TestNotes:
    def test_a_dropped_pod_group_is_named_with_what_has_no_counterpart(self, system: System) -> None:
        group = pod_group(system, "g", 5, minResources={"cpu": "5"}, scheduleTimeoutSeconds=10)
        ((position, path, text),) = notes(system, two(system), group)
        assert (position, path) == (1, "")
        assert 'PodGroup "g": gangctl makes its own; its scheduleTimeoutSeconds have no counterpart' in text

    def test_an_unused_pod_group_is_kept_with_a_note(self, system: System) -> None:
        other = pod_group(system, "other", 3)
        objects = [two(system), pod_group(system, "g", 5), other]
        assert converted(system, *objects)[1:] == [other]
        assert [text for at, _, text in notes(system, *objects) if at == 2 and "stays" in text]

    def test_pod_groups_created_by_a_controller_are_removed(self, system: System) -> None:
        dumped = pod_group(system, "pg-js", 5)
        dumped["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "js"}]
        elsewhere = {**dumped, "metadata": {**dumped["metadata"], "namespace": "of-another-js"}}
        objects = [two(system), pod_group(system, "g", 5), dumped]
        assert len(converted(system, *objects)) == 1
        assert converted(system, *objects, elsewhere)[1:] == [elsewhere]
        assert [at for at, _, _ in notes(system, *objects)] == [1, 2]

    def test_a_sequenced_startup_is_split_with_a_note(self, system: System) -> None:
        raw = jobset("js", scheduled_by(system, rj("a"), "g"), scheduled_by(system, rj("b", depends_on="a"), "g"))
        texts = [text for _, _, text in notes(system, raw, pod_group(system, "g", 2))]
        assert any(text.startswith("Startup is sequenced") for text in texts)


class TestRefused:
    def test_a_minimum_above_all_pods_is_refused(self, system: System) -> None:
        ((_, message),) = problems(system, two(system), pod_group(system, "g", 6))
        assert message == "spec.minMember: is 6, and only 5 pods exist at once: this gang could never start"

    @each("minimum", [None, 0])
    def test_a_pod_group_without_a_minimum_is_refused(self, system: System, minimum: int | None) -> None:
        ((position, message),) = problems(system, two(system), pod_group(system, "g", minimum))
        assert position == 1
        assert "no gang: write 5" in message

    def test_an_absent_pod_group_is_refused(self, system: System) -> None:
        ((position, message),) = problems(system, two(system), pod_group(system, "g", 5, namespace=None))
        assert position == 0
        assert message.startswith(f'{path_of(system)}: no PodGroup "g" with namespace "t" is in the input')

    def test_a_group_over_two_jobsets_is_refused(self, system: System) -> None:
        other = two(system)
        other["metadata"]["name"] = "other"
        found = problems(system, two(system), other, pod_group(system, "g", 10))
        assert [(at, message.split(": ")[0]) for at, message in found] == [(0, path_of(system)), (1, path_of(system))]
        assert 'also that of JobSet "other"' in found[0][1]

    def test_a_group_with_pods_of_another_kind_is_refused(self, system: System) -> None:
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "t"},
            "spec": {"template": two(system)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]},
        }
        ((_, message),) = problems(system, two(system), deployment, pod_group(system, "g", 6))
        assert 'also that of Deployment "d"' in message

    def test_pods_that_use_a_removed_key_are_refused(self, system: System) -> None:
        raw = two(system)
        key = GROUPS[system][2]
        spec = raw["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]
        spec["affinity"] = {"podAffinity": {"x": [{"labelSelector": {"matchLabels": {key: "g"}}}]}}
        ((_, message),) = problems(system, raw, pod_group(system, "g", 5))
        assert message.startswith("spec.replicatedJobs[1].template.spec.template.spec: these pods use")

    def test_a_group_name_that_is_no_text_is_refused(self, system: System) -> None:
        raw = two(system)
        _, field, key = GROUPS[system]
        raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"][field][key] = 7
        assert problems(system, raw)[0][1] == f"{path_of(system)}: must be a text, in quotes, got 7"

    def test_a_jobset_with_a_gang_already_is_refused(self, system: System) -> None:
        ((_, message),) = problems(system, two(system, mode="Off"), pod_group(system, "g", 5))
        assert message.startswith("metadata: the JobSet has a gang configuration already")
        ((_, message),) = problems(system, two(system, scheduling={}), pod_group(system, "g", 5))
        assert message.startswith("spec.scheduling: ")

    def test_two_systems_on_one_jobset_are_refused(self, system: System) -> None:
        raw = two(system)
        raw["metadata"]["labels"] = {"kai.scheduler/queue": "q"}
        ((_, message),) = problems(system, raw, pod_group(system, "g", 5))
        assert message.startswith("metadata.labels[kai.scheduler/queue]: label kai.scheduler/queue is for KAI, beside")

    def test_a_result_that_gangctl_would_refuse_is_refused(self, system: System) -> None:
        raw = two(system)
        pods = [entry["template"]["spec"]["template"]["spec"] for entry in raw["spec"]["replicatedJobs"]]
        pods[0]["priorityClassName"], pods[1]["priorityClassName"] = "high", "low"
        ((_, message),) = problems(system, raw, pod_group(system, "g", 5))
        assert "priorityClassName" in message


def test_the_key_counts_only_where_the_scheduler_reads_it(system: System) -> None:
    """An annotation of coscheduling's key, or a label of Volcano's, is ignored."""
    other = {"annotations": "labels", "labels": "annotations"}[GROUPS[system][1]]
    key = {System.VOLCANO: VOLCANO_GROUP, System.COSCHEDULING: COSCHEDULING_GROUP}[system]
    entry = scheduled_by(system, rj("b"), "g")
    entry["template"]["spec"]["template"]["metadata"][other] = {key: "x"}
    raw = jobset("js", entry)
    assert converted(system, raw, pod_group(system, "g", 1)) == [jobset("js", rj("b"), mode="Gang")]
    ((_, path, _), _) = notes(system, raw, pod_group(system, "g", 1))
    assert path == f"{POD}.metadata.{other}[{key}]"
