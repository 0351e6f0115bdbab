"""``gangctl convert``; the mapping itself is tested in ``tests/gang/test_convert.py``."""

from __future__ import annotations

from pathlib import Path

from gangctl.api.documents import parse_documents
from gangctl.gang.convert import Notation, convert
from tests.cli.manifests import CONFIG_MAP, EXAMPLES, SERVICE, gang, write
from tests.cli.run import fine, gangctl
from tests.jobsets import jobset, rj
from tests.pathways.samples import pathways_job
from tests.rows import each
from tests.strategies import EXCLUSIVE

WITHOUT_TWIN = {
    (Notation.SCHEDULING, "04-replica-gangs"): "would make 12 groups",
    (Notation.GANGCONFIG, "06-elastic"): "gangConfig has no word for several gangs",
}
"""Examples that a notation cannot hold, with why."""


@each("form", ["yaml", "json"])
@each("to", Notation)
def test_only_the_gang_changes_in_the_whole_stream(to: Notation, form: str, tmp_path: Path) -> None:
    stream = [CONFIG_MAP, gang("a", uid="x"), SERVICE, jobset("b", rj("w")), jobset("c", rj("w", mode="Gang"))]
    answer = fine("convert", "-f", write(tmp_path / "a.yaml", *stream), "--to", str(to), "-o", form)
    values = [document.value for document in parse_documents(answer.out, "out")]
    expected = [convert(raw, to).value if raw["kind"] == "JobSet" else raw for raw in stream]
    assert values == expected
    assert answer.err == ""


@each("to", Notation)
@each("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_converted_there_and_back_are_unchanged(example: Path, to: Notation, tmp_path: Path) -> None:
    answer = gangctl("convert", "-f", str(example), "--to", str(to))
    if why := WITHOUT_TWIN.get((to, example.stem)):
        assert (answer.code, answer.out) == (2, "")
        assert why in answer.err
        return
    there = tmp_path / "there.yaml"
    there.write_text(answer.out)
    back = tmp_path / "back.yaml"
    back.write_text(fine("convert", "-f", str(there), "--to", "annotations").out)
    plans = [fine("plan", "-f", str(file), "-o", "json").json for file in (example, back)]
    for plan in plans:  # a JobSet-wide gang that was split comes back as it was split
        plan.pop("warnings")
    assert plans[0] == plans[1]


def test_values_survive_the_conversion_to_text() -> None:
    text = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js, labels: {a: 'yes', b: '012', c: '1e3'}}
spec:
  replicatedJobs:
  - name: a
    gangConfig: {gangMode: 'Off'}
    template: &t
      spec: {x: 2026-01-01}
  - name: b
    template: *t
"""
    for form in ("yaml", "json"):
        answer = fine("convert", "-f", "-", "--to", "annotations", "-o", form, stdin=text)
        (value,) = [document.value for document in parse_documents(answer.out, "out")]
        (before,) = [document.value for document in parse_documents(text, "in")]
        first, second = value["spec"]["replicatedJobs"]
        assert value["metadata"] == before["metadata"]
        assert first["template"]["metadata"] == {"annotations": {"gangctl.dev/gang-mode": "Off"}}
        assert first["template"]["spec"] == second["template"]["spec"] == {"x": "2026-01-01"}
        assert "metadata" not in second["template"]


class TestRefused:
    def test_errors_are_reported_with_places_for_every_document(self, tmp_path: Path) -> None:
        raw = jobset("js", rj("a", 2, 2, 2), scheduling={"schedulingPolicy": {"gang": {"minCount": 5}}})
        at_once = jobset("js", rj("a"), gangConfig={"scheduleAtOnce": True})
        answer = gangctl("convert", "-f", write(tmp_path / "a.yaml", gang(), raw, at_once), "--to", "annotations")
        assert (answer.code, answer.out) == (2, "")
        lines = answer.err.splitlines()
        assert "spec.scheduling.schedulingPolicy.gang.minCount: must be a number from 1 to the 4 pods" in lines[0]
        assert "spec.gangConfig.scheduleAtOnce: is not known: write gangMode" in lines[1]
        assert all(line.startswith(f"{tmp_path}/a.yaml:") for line in lines[:-1])
        assert lines[-1] == "error: 3 errors in 2 JobSets"

    def test_input_without_a_jobset_is_refused(self, tmp_path: Path) -> None:
        answer = gangctl("convert", "-f", write(tmp_path / "a.yaml", SERVICE), "--to", "annotations")
        assert (answer.code, answer.out) == (2, "")

    @each("flags", [(), ("--from", "volcano")])
    def test_a_pathwaysjob_is_refused_with_the_command_that_prints_its_jobset(
        self, flags: tuple[str, ...], tmp_path: Path
    ) -> None:
        file = write(tmp_path / "a.yaml", pathways_job())
        answer = gangctl("convert", "-f", file, "--to", "annotations", *flags)
        assert (answer.code, answer.out) == (2, "")
        assert "no JobSet in the input: found 1 PathwaysJob" in answer.err
        assert "gangctl pathways render" in answer.err
        fine("convert", "-f", file, "-f", write(tmp_path / "b.yaml", gang()), "--to", "annotations")


def test_exclusive_placement_that_is_refused_names_the_command_that_replaces_it(tmp_path: Path) -> None:
    raw = jobset("js", rj("w", 2, 4, 4, mode="ReplicatedGang"), annotations={EXCLUSIVE: "example.com/rack"})
    file = write(tmp_path / "js.yaml", raw)
    refused = gangctl("plan", "-f", file)
    assert refused.code == 2
    flags = ("convert", "--to", "annotations", "--replace-exclusive-topology")
    assert " ".join(flags) in refused.err
    converted = fine(*flags, "--kube", "1.37", "-f", file)
    fine("plan", "-f", write(tmp_path / "converted.yaml", *converted.documents))
    assert gangctl("convert", "--to", "annotations", "--kube", "1.37", "-f", file).code == 2
    assert gangctl(*flags, "--from", "volcano", "-f", file).code == 2
