"""``gangctl convert --from``; what becomes of which gang is tested in ``tests/migration``."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangctl.migration.draft import NAMES, System
from tests.cli.manifests import CONFIG_MAP, gang, write
from tests.cli.run import fine, gangctl
from tests.jobsets import jobset, rj
from tests.migration.inputs import COSCHEDULING_GROUP, GROUPS, KAI_QUEUE, SCHEDULERS, pod_group, scheduled_by
from tests.rows import each

FROM = ("--to", "annotations", "--from")


def of_kai(name: str = "js", **labels: str) -> dict[str, object]:
    """A JobSet that KAI makes a gang of."""
    raw = jobset(name, scheduled_by(System.KAI, rj("a", 1, 2, 2)))
    raw["metadata"]["labels"] = {KAI_QUEUE: "research", **labels}
    return raw


@each("form", ["yaml", "json"])
@each("system", GROUPS)
def test_the_converted_stream_has_no_pod_groups(system: System, form: str, tmp_path: Path) -> None:
    raw = jobset("js", scheduled_by(system, rj("a", 1, 2, 2), "g"))
    file = write(tmp_path / "in.yaml", CONFIG_MAP, pod_group(system, "g", 2), raw)
    answer = fine("convert", "-f", file, *FROM, str(system), "-o", form)
    expected = [CONFIG_MAP, jobset("js", rj("a", 1, 2, 2), mode="Gang")]
    assert (answer.json["items"] if form == "json" else answer.documents) == expected
    title = NAMES[system].title
    assert answer.err == f'note: {file}:6:1: dropped {title} PodGroup "g": gangctl makes its own\n'


def test_the_result_is_a_gang_for_every_other_command(tmp_path: Path) -> None:
    there = tmp_path / "there.yaml"
    there.write_text(fine("convert", "-f", write(tmp_path / "in.yaml", of_kai()), *FROM, "kai").out)
    (group,) = fine("plan", "-f", str(there), "-o", "json").json["groups"]
    assert group["minCount"] == 2
    again = fine("convert", "-f", str(there), *FROM, "kai")
    assert again.out == there.read_text()
    assert again.err == "note: no JobSet of the input has anything for KAI\n"


def test_the_queue_flag_sets_a_queue_of_kueue(tmp_path: Path) -> None:
    file = write(tmp_path / "in.yaml", of_kai())
    answer = fine("convert", "-f", file, *FROM, "kai", "--queue", "team")
    assert answer.documents[0]["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team"}
    assert answer.err == ""
    assert 'queue "research" of KAI is left out; --queue NAME' in fine("convert", "-f", file, *FROM, "kai").err


@pytest.mark.parametrize("system", System)
def test_without_from_a_note_names_the_detected_scheduler(system: System, tmp_path: Path) -> None:
    raw = jobset("js", scheduled_by(system, rj("a", mode="Gang")))
    answer = fine("convert", "-f", write(tmp_path / "in.yaml", gang(), raw), "--to", "gangconfig")
    spec = answer.documents[1]["spec"]["replicatedJobs"][0]
    assert spec["template"]["spec"]["template"]["spec"]["schedulerName"] == SCHEDULERS[system]
    (line,) = answer.err.splitlines()
    assert line.startswith(f"note: {tmp_path}/in.yaml:")
    assert f"schedulerName {SCHEDULERS[system]} is for {NAMES[system].title}, and stays" in line
    assert f"--to annotations --from {system}" in line


@each("label", [COSCHEDULING_GROUP, "pod-group.scheduling.sigs.k8s.io"])
def test_a_plan_without_a_gang_names_the_command_that_converts(label: str, tmp_path: Path) -> None:
    raw = jobset("js", scheduled_by(System.COSCHEDULING, rj("a"), scheduler="", labels={label: "g"}))
    answer = gangctl("plan", "-f", write(tmp_path / "in.yaml", raw))
    assert (
        f"label {label} is for coscheduling, and stays: gangctl convert --to annotations --from coscheduling"
        in answer.err
    )
    raw["metadata"]["annotations"] = {"gangctl.dev/gang-mode": "Gang"}
    assert "coscheduling" not in gangctl("plan", "-f", write(tmp_path / "in.yaml", raw)).err


class TestRefused:
    def test_errors_are_reported_with_places_in_every_object(self, tmp_path: Path) -> None:
        raw = jobset("js", scheduled_by(System.VOLCANO, rj("a", 1, 4, 4), "g"))
        vcjob = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}}
        file = write(tmp_path / "in.yaml", pod_group(System.VOLCANO, "g", 5), vcjob, raw)
        answer = gangctl("convert", "-f", file, *FROM, "volcano")
        assert (answer.code, answer.out) == (2, "")
        first, second, last = answer.err.splitlines()
        assert first.startswith(f"{file}:7:3: spec.minMember: is 5, and only 4 pods")
        assert second.startswith(f'{file}:10:1: kind: "Job" of batch.volcano.sh/v1alpha1 is no JobSet')
        assert last == "error: 2 errors in 1 Job and 1 PodGroup"

    @pytest.mark.parametrize("notation", ["gangconfig", "scheduling"])
    def test_another_target_than_annotations_is_refused(self, notation: str, tmp_path: Path) -> None:
        file = write(tmp_path / "in.yaml", of_kai())
        answer = gangctl("convert", "-f", file, "--to", notation, "--from", "kai")
        assert (answer.code, answer.out) == (2, "")
        assert "--from writes annotations" in answer.err

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ((*FROM, "yunikorn"), "'volcano', 'kai', 'coscheduling'"),
            ((*FROM, "kai", "--queue", "A b"), "is not the name of a LocalQueue"),
            (("--to", "annotations", "--queue", "team"), "--queue belongs to --from"),
        ],
    )
    def test_invalid_arguments_are_refused(self, arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
        answer = gangctl("convert", "-f", write(tmp_path / "in.yaml", of_kai()), *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert words in answer.err

    def test_another_kind_alone_has_the_hint_for_it(self, tmp_path: Path) -> None:
        job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}}
        answer = gangctl("convert", "-f", write(tmp_path / "in.yaml", job), *FROM, "volcano")
        assert (answer.code, answer.out) == (2, "")
        assert "write a JobSet with one replicated job per task" in answer.err

    def test_input_without_a_jobset_is_refused(self, tmp_path: Path) -> None:
        file = write(tmp_path / "in.yaml", pod_group(System.VOLCANO, "g", 3))
        answer = gangctl("convert", "-f", file, *FROM, "volcano")
        assert (answer.code, answer.out) == (2, "")
        assert "no JobSet in the input: found 1 PodGroup" in answer.err
