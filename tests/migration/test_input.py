"""An input as a whole: other objects, other kinds of gangs, anything at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.jobset import read_jobset
from gangctl.gang.convert import Notation, convert
from gangctl.gang.plan import job_pods, replicated_job_pods
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.migration.draft import NAMES, System, systems_seen
from gangctl.migration.migrate import migrate
from tests.cli.manifests import CONFIG_MAP, SERVICE
from tests.gang.pipeline import some_plan
from tests.jobsets import jobset, rj
from tests.migration.inputs import GROUPS, VOLCANO_MIN, converted, migrated, pod_group, problems, scheduled_by
from tests.rows import each
from tests.strategies import PROPERTY, hostile_jobsets, jobsets


@pytest.mark.parametrize("system", System)
class TestOtherObjects:
    def test_other_objects_are_kept_and_other_jobsets_are_converted(self, system: System) -> None:
        other = jobset("js", rj("a"), gangConfig={"gangMode": "Gang"})
        migration = migrated(system, CONFIG_MAP, other, SERVICE)
        assert migration.values == (CONFIG_MAP, convert(other, Notation.ANNOTATIONS).value, SERVICE)
        assert (migration.notes, migration.problems, migration.converted) == ((), (), 0)

    @each(
        ("version", "kind"),
        [
            ("kubeflow.org/v1", "PyTorchJob"),
            ("batch.volcano.sh/v1alpha1", "Job"),
            ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
            ("ray.io/v1", "RayJob"),
            ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
        ],
    )
    def test_gangs_that_are_no_jobsets_are_refused_by_kind(self, system: System, version: str, kind: str) -> None:
        pod = {"schedulerName": min(NAMES[system].schedulers)}
        workload = {"apiVersion": version, "kind": kind, "spec": {"template": {"spec": pod}}}
        ((position, message),) = problems(system, CONFIG_MAP, workload)
        assert position == 1
        assert message.startswith(f'kind: "{kind}" of {version} is no JobSet: ')
        pod["schedulerName"] = "another"
        if system is not System.VOLCANO or kind != "Job":
            assert converted(system, CONFIG_MAP, workload) == [CONFIG_MAP, workload]

    @each(
        ("version", "kind"),
        [("kubeflow.org/v1", "Profile"), ("kubeflow.org/v1", "Notebook"), ("batch.volcano.sh/v1alpha1", "Command")],
    )
    def test_other_kinds_of_the_groups_of_jobs_are_kept(self, system: System, version: str, kind: str) -> None:
        pod = {"schedulerName": min(NAMES[system].schedulers)}
        other = {"apiVersion": version, "kind": kind, "spec": {"template": {"spec": pod}}}
        assert converted(system, other) == [other]

    def test_a_scheduler_that_an_operator_writes_into_pods_counts(self, system: System) -> None:
        name = min(NAMES[system].schedulers)
        ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"labels": {"ray.io/scheduler-name": name}}}
        spark = {
            "apiVersion": "sparkoperator.k8s.io/v1beta2",
            "kind": "SparkApplication",
            "spec": {"batchScheduler": name},
        }
        assert [position for position, _ in problems(system, ray, spark)] == [0, 1]

    def test_a_job_of_the_scheduler_is_refused_and_other_jobs_are_kept(self, system: System) -> None:
        job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {}}}}
        assert converted(system, job) == [job]
        names = NAMES[system]
        job["spec"] = {"template": {"spec": {"schedulerName": min(names.schedulers)}}}
        assert "the template of its one replicated job" in problems(system, job)[0][1]

    def test_every_problem_of_every_object_is_reported(self, system: System) -> None:
        name = min(NAMES[system].schedulers)
        vcjob = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"schedulerName": name}}
        wrong = jobset("js", rj("a", mode="Sideways"))
        assert [position for position, _ in problems(system, vcjob, wrong, jobset("js", rj("a", mode="no")))] == [
            0,
            1,
            2,
        ]


RUNTIME: dict[str, Any] = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime"}


@each(
    ("system", "word"),
    [(System.COSCHEDULING, "coscheduling"), (System.VOLCANO, "volcano"), (System.KAI, "coscheduling")],
)
def test_a_training_runtime_of_the_scheduler_is_refused_with_its_own_fields(system: System, word: str) -> None:
    template = {"spec": {"replicatedJobs": [rj("node")]}}
    raw = {**RUNTIME, "spec": {"podGroupPolicy": {word: {}}, "template": template}}
    if system is System.KAI:
        assert converted(system, raw) == [raw]
        return
    ((_, message),) = problems(system, raw)
    assert "annotations of its spec.template.metadata" in message
    assert "remove spec.podGroupPolicy" in message
    ready = jobset("js", rj("node"), mode="Gang")
    made = {**RUNTIME, "spec": {"template": {"metadata": ready["metadata"], "spec": ready["spec"]}}}
    assert converted(system, made) == [made]


_SIZES = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))


@st.composite
def ganged(draw: st.DrawFn, system: System) -> list[dict[str, Any]]:
    """An input whose JobSet is ganged by PodGroups that want all of their pods, one each or one of all."""
    sizes = draw(st.lists(_SIZES, min_size=1, max_size=4))
    plain = [rj(f"r{index}", *size) for index, size in enumerate(sizes)]
    groups = draw(st.sampled_from([["g"] * len(plain), [f"g{index}" for index in range(len(plain))]]))
    raw = jobset("js", *(scheduled_by(system, entry, group) for entry, group in zip(plain, groups, strict=True)))
    pods = [replicated_job_pods(each) for each in read_jobset(raw)[0].replicated_jobs]
    minimum = {name: sum(n for n, group in zip(pods, groups, strict=True) if group == name) for name in groups}
    return [raw, *(pod_group(system, name, number) for name, number in minimum.items())]


class TestProperties:
    @PROPERTY
    @given(st.sampled_from(sorted(GROUPS)).flatmap(lambda s: st.tuples(st.just(s), ganged(s))))
    def test_the_gangs_have_as_many_pods_as_before(self, case: tuple[System, list[dict[str, Any]]]) -> None:
        system, objects = case
        (value,) = converted(system, *objects)
        assert systems_seen(value) == {}
        jobset_read, _ = read_jobset(value)
        resolution = resolve(jobset_read, ClusterRules())
        assert resolution.errors == ()
        found: dict[str, int] = {}
        for replicated, stamp in zip(jobset_read.replicated_jobs, resolution.stamps, strict=True):
            assert stamp is not None
            found[stamp.template] = found.get(stamp.template, 0) + replicated_job_pods(replicated)
        assert sorted(found.values()) == sorted(group["spec"]["minMember"] for group in objects[1:])
        assert converted(system, value) == [value]

    @PROPERTY
    @given(st.lists(_SIZES, min_size=1, max_size=4), st.integers(-1, 1))
    def test_a_minimum_per_job_is_the_minimum_of_the_gang(self, sizes: list[tuple[int, int, int]], off: int) -> None:
        plain = [rj(f"r{index}", *size) for index, size in enumerate(sizes)]
        pods = [job_pods(each) for each in read_jobset(jobset("js", *plain))[0].replicated_jobs]
        entries = []
        for entry, number in zip(plain, pods, strict=True):
            marked = scheduled_by(System.VOLCANO, entry)
            marked["template"]["metadata"] = {"annotations": {VOLCANO_MIN: str(number + off)}}
            entries.append(marked)
        migration = migrated(System.VOLCANO, jobset("js", *entries))
        refused = len(plain) if off > 0 else sum(number + off < 1 for number in pods)
        assert len(migration.problems) == refused
        if not refused:
            value = migration.values[0]
            assert value is not None
            plan = some_plan(value)
            expected = [
                number + off for number, entry in zip(pods, plain, strict=True) for _ in range(entry["replicas"])
            ]
            assert sorted(group.template.min_count for group in plan.groups) == sorted(expected)

    @PROPERTY
    @given(st.lists(st.one_of(hostile_jobsets(), jobsets()), max_size=3), st.sampled_from(System), st.data())
    def test_any_input_is_converted_or_refused(
        self, objects: list[dict[str, Any]], system: System, data: st.DataObject
    ) -> None:
        for raw in objects:
            _mark(raw, system, data)
        before = repr(objects)
        migration = migrate(objects, system, queue=data.draw(st.sampled_from(["", "q"])))
        assert repr(objects) == before
        assert len(migration.values) == len(objects)


def _mark(raw: Any, system: System, data: st.DataObject) -> None:
    """Put what the system reads, or nearly, into whatever is left of a JobSet."""
    key = NAMES[system].group_key
    spec = raw.get("spec") if isinstance(raw, dict) else None
    entries = spec.get("replicatedJobs") if isinstance(spec, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        template = entry.get("template") if isinstance(entry, dict) else None
        job = template.get("spec") if isinstance(template, dict) else None
        pod = job.get("template") if isinstance(job, dict) else None
        if not isinstance(pod, dict):
            continue
        if isinstance(pod.get("spec"), dict):
            pod["spec"]["schedulerName"] = data.draw(st.sampled_from([*NAMES[system].schedulers, "", "other"]))
        strange: list[Any] = [None, [], "x", {"labels": []}, {"annotations": None}, {"labels": {key: 7}}]
        marked = [{"labels": {key: "g"}, "annotations": {key: "g"}}]
        pod["metadata"] = data.draw(st.sampled_from([*strange, *marked]))
