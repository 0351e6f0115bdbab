"""PathwaysJob files in ``plan``, ``translate``, ``fit`` and ``policy eval``: they count as the JobSets they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gangctl.api.emit import to_yaml
from gangctl.cli.manifests import Manifest, read_manifests
from gangctl.gang.resolve import ClusterRules
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.rendering.jobset import render
from tests.cli.kueueobjects import CONFIGURATION, cluster_queue, flavor, local_queue
from tests.cli.manifests import CONFIG_MAP, PLACEHOLDER, gang, write
from tests.cli.policy.policies import QUEUE, files, native, policy, rule
from tests.cli.publishedschemas import schema_of
from tests.cli.run import Answer, fine, gangctl
from tests.cli.schema import violations
from tests.pathways.samples import UNUSED_CLAIM, annotated, container, pathways_job, template
from tests.rows import each

Object = dict[str, Any]

COMMANDS = (("plan",), ("translate",), ("fit", "--queues", "QUEUES"), ("policy", "eval", "--policy", "POLICIES"))
COLOCATED = {"deploymentMode": "colocate_head_with_workers"}


def rendered(raw: Object) -> Object:
    """The JobSet of a PathwaysJob, by the functions that the controller calls."""
    job = read_pathways_job(raw).job
    assert isinstance(job, PathwaysJob)
    return dict(render(job).jobset)


def queues(cpu: str = "100", memory: str = "1000Gi", tpus: str = "16") -> list[Object]:
    """A queue with one flavor for everything."""
    quota = {"f": {"cpu": cpu, "memory": memory, "google.com/tpu": tpus}}
    return [CONFIGURATION, flavor("f"), cluster_queue("cq", quota), local_queue("q", "cq")]


def queued(**fields: Any) -> Object:
    return pathways_job(metadata={"labels": {QUEUE: "q"}}, **fields)


def run(directory: Path, command: tuple[str, ...], *documents: Object) -> Answer:
    """A command of :data:`COMMANDS` on these documents."""
    places = {
        "QUEUES": write(directory / "queues.yaml", *queues()),
        "POLICIES": write(directory / "policies.yaml", policy("p", rule("true"))),
    }
    arguments = [places.get(each, each) for each in command]
    return gangctl(*arguments, "-f", write(directory / "a.yaml", *documents))


class TestPlan:
    def test_the_plan_is_that_of_the_jobset(self, tmp_path: Path) -> None:
        raw = pathways_job()
        own = fine("plan", "-f", write(tmp_path / "a.yaml", raw), "-o", "json").json
        of_jobset = fine("plan", "-f", write(tmp_path / "b.yaml", rendered(raw)), "-o", "json").json
        reported = own.pop("warnings")
        of_jobset.pop("warnings")
        assert own == of_jobset
        assert [(t["name"], t["minCount"]) for t in own["templates"]] == [("worker", 4)]
        assert violations({**own, "warnings": reported}, schema_of("plan")) == []

    def test_the_plan_has_the_notes_of_the_rendering(self, tmp_path: Path) -> None:
        job = pathways_job(
            controller={"template": template(container(env=[{"name": "JAX_PLATFORMS", "value": "cpu"}]))}
        )
        answer = fine("plan", "-f", write(tmp_path / "a.yaml", job))
        assert "\nPathwaysJob t/pw\n" in answer.out
        assert "! EnvOverridden: " in answer.out

    def test_pathwaysjobs_are_planned_beside_jobsets(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", gang("js"), CONFIG_MAP, pathways_job())
        answer = fine("plan", "-f", file, "-o", "json")
        assert [each["metadata"]["name"] for each in answer.json["items"]] == ["js", "pw"]
        assert answer.err == f"note: skipped 1 ConfigMap\n{PLACEHOLDER}"

    def test_the_namespace_is_that_of_the_flag(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", pathways_job(metadata={"namespace": None}))
        assert fine("plan", "-f", file, "-n", "here", "-o", "json").json["metadata"]["namespace"] == "here"
        refused = gangctl("plan", "-f", write(tmp_path / "b.yaml", pathways_job()), "-n", "here")
        assert refused.code == 2
        assert 'metadata.namespace: is "t" but --namespace is "here"' in refused.err

    def test_input_without_jobsets_is_refused_with_the_accepted_kinds(self, tmp_path: Path) -> None:
        answer = gangctl("plan", "-f", write(tmp_path / "a.yaml", CONFIG_MAP))
        assert answer.code == 2
        assert "pathways-job.pathways.domain/v1" in answer.err


def test_translate_prints_the_gangs_and_the_jobs(tmp_path: Path) -> None:
    answer = fine("translate", "-f", write(tmp_path / "a.yaml", pathways_job()), "--jobs", "-o", "json")
    kinds = [(each["kind"], each["metadata"]["name"]) for each in answer.json["items"]]
    assert [name for kind, name in kinds if kind == "Job"] == ["pw-pathways-head-0", "pw-worker-0", "pw-worker-1"]
    assert [kind for kind, _ in kinds[:2]] == ["Workload", "PodGroup"]
    assert "note: t/pw: GangDisabledExclusivePlacement: " in answer.err


class TestFit:
    @pytest.mark.parametrize(("cpu", "verdict", "code"), [("24", "unknown", 0), ("23", "never", 1)])
    def test_fit_counts_the_head(self, cpu: str, verdict: str, code: int, tmp_path: Path) -> None:
        place = write(tmp_path / "q.yaml", *queues(cpu=cpu))
        answer = gangctl("fit", "-f", write(tmp_path / "a.yaml", queued()), "--queues", place, "-o", "json")
        assert (answer.code, answer.json["verdict"]) == (code, verdict), answer.err
        assert [each["name"] for each in answer.json["podSets"]] == ["pathways-head", "worker"]

    def test_a_queue_that_does_not_cover_cpu_is_reported(self, tmp_path: Path) -> None:
        only_tpus = [CONFIGURATION, flavor("f"), cluster_queue("cq", {"f": {"google.com/tpu": "16"}})]
        place = write(tmp_path / "q.yaml", *only_tpus, local_queue("q", "cq"))
        answer = gangctl("fit", "-f", write(tmp_path / "a.yaml", queued()), "--queues", place, "-o", "json")
        assert (answer.code, answer.json["verdict"]) == (1, "never")
        assert "cpu" in answer.json["message"]


def evaluated(directory: Path, policies: list[Object], subjects: list[Object], *args: str) -> Answer:
    places = files(directory, policies=policies, subjects=subjects)
    return gangctl("policy", "eval", "--policy", places["policies"], "-f", places["subjects"], *args)


def about_pathways_jobs(*rules: Object) -> Object:
    """A native policy whose rules are about PathwaysJobs."""
    found = native("own", *rules)
    (resource_rule,) = found["spec"]["matchConstraints"]["resourceRules"]
    resource_rule |= {
        "apiGroups": ["pathways-job.pathways.domain"],
        "apiVersions": ["v1"],
        "resources": ["pathwaysjobs"],
        "operations": ["*"],
    }
    return found


class TestPolicyEval:
    def test_policies_are_evaluated_on_the_jobset(self, tmp_path: Path) -> None:
        jobset_rule = rule("object.spec.replicatedJobs.size() == 2 && gang.totalPods == 5 && object.kind == 'JobSet'")
        answer = evaluated(tmp_path, [policy("p", jobset_rule)], [pathways_job()], "-o", "json")
        assert (answer.code, answer.json["allowed"]) == (0, True)
        assert answer.json["object"]["kind"] == "JobSet"
        assert "evaluated is the JobSet that PathwaysJob t/pw becomes" in answer.json["notes"]

    def test_a_denial_names_the_jobset(self, tmp_path: Path) -> None:
        answer = evaluated(tmp_path, [policy("p", rule("gang.totalPods < 5"))], [pathways_job()], "-o", "name")
        assert (answer.code, answer.out) == (1, "jobset.jobset.x-k8s.io/pw\n")

    @pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
    def test_policies_about_pathwaysjobs_evaluate_those(self, operation: str, tmp_path: Path) -> None:
        own = about_pathways_jobs(rule("request.resource.resource != 'pathwaysjobs'", message="none of those"))
        answer = evaluated(tmp_path, [own], [pathways_job()], "-o", "json", "--operation", operation)
        printed = [(each["object"]["kind"], each["allowed"]) for each in answer.json["items"]]
        assert printed == [("PathwaysJob", False), ("JobSet", True)]
        assert answer.code == 1

    def test_an_update_is_evaluated_on_the_pathwaysjob_only(self, tmp_path: Path) -> None:
        old = write(tmp_path / "old.yaml", pathways_job())
        answer = evaluated(
            tmp_path,
            [policy("p", rule("false"))],
            [pathways_job()],
            "-o",
            "json",
            "--operation",
            "UPDATE",
            "--old",
            old,
        )
        assert (answer.code, answer.json["object"]["kind"]) == (0, "PathwaysJob")
        assert "does not change its JobSet" in answer.json["notes"][0]

    def test_policies_see_the_fit_of_the_jobset(self, tmp_path: Path) -> None:
        place = write(tmp_path / "q.yaml", *queues(cpu="1"))
        answer = evaluated(
            tmp_path, [policy("p", rule("fit.verdict != 'never'"))], [queued()], "--queues", place, "-o", "json"
        )
        assert answer.code == 1


class TestPolicyTest:
    def run(self, directory: Path, *rows: Object, kube: str = "1.37") -> Answer:
        own = about_pathways_jobs(rule("object.spec.pathwaysDir != ''", message="nowhere"))
        # Of one slice: its gang requires a node pool, which Kubernetes 1.35 cannot.
        single = pathways_job(workers={"numSlices": 1})
        files(directory, policies=[policy("p", rule("gang.totalPods == 3")), own], resources=[single])
        suite = {
            "apiVersion": "gangctl.dev/v1alpha1",
            "kind": "PolicyTest",
            "policies": ["policies.yaml"],
            "resources": ["resources.yaml"],
            "results": list(rows),
        }
        (directory / "gangctl-test.yaml").write_text(to_yaml([suite]))
        return gangctl("policy", "test", str(directory), "--kube", kube)

    @pytest.mark.parametrize("kube", ["1.35", "1.37"])
    def test_a_name_without_a_kind_selects_the_jobset(self, kube: str, tmp_path: Path) -> None:
        answer = self.run(tmp_path, {"policy": "p", "resources": "pw", "result": "pass"}, kube=kube)
        assert answer.code == 0, answer.out + answer.err

    def test_a_name_with_the_kind_selects_the_pathwaysjob(self, tmp_path: Path) -> None:
        by_kind = {"kind": "PathwaysJob", "name": "pw"}
        assert self.run(tmp_path, {"policy": "own", "resources": by_kind, "result": "pass"}).code == 0
        assert self.run(tmp_path, {"policy": "p", "resources": by_kind, "result": "pass"}).code == 1


def without_workers() -> Object:
    raw = pathways_job()
    raw["spec"]["workers"] = []
    return raw


# Name: the PathwaysJob, the field of the error, and words of the message.
REFUSED: dict[str, tuple[Object, str, tuple[str, ...]]] = {
    "machine-type": (
        pathways_job(workers={"type": "n2-standard-2"}),
        "spec.workers[0].type",
        ("n2-standard-2", "allowed: tpu7x-standard-4t", "(UnknownAccelerator)"),
    ),
    "topology": (pathways_job(workers={"topology": "16x15"}), "spec.workers[0].topology", ("(InvalidTopology)",)),
    "no-slices": (
        pathways_job(workers={"numSlices": 0}),
        "spec.workers[0].numSlices",
        ("at least 1", "got 0", "(InvalidNumSlices)"),
    ),
    "no-workers": (
        without_workers(),
        "spec.workers",
        ("got 0", "(InvalidWorkers)"),
    ),
    "name": (pathways_job("a" * 23), "metadata.name", ("23 characters, at most 22", "(NameTooLong)")),
    "elastic": (
        pathways_job(controller={"elasticSlices": 2}),
        "spec.controller.elasticSlices",
        ("less than", "(InvalidElasticSlices)"),
    ),
    "main": (
        pathways_job(controller={"mainContainerName": "trainer"}),
        "spec.controller.mainContainerName",
        ('"trainer"', '"main"', "(MissingMainContainer)"),
    ),
    "quantity": (
        pathways_job(controller={"template": template(container(resources={"requests": {"cpu": "lots"}}))}),
        "spec.controller.template.spec.containers[0].resources.requests.cpu",
        ('"lots"', "(InvalidResources)"),
    ),
    "options": (
        pathways_job(metadata=annotated(pathways_options='{"startup": "Never"}')),
        "metadata.annotations[gangctl.dev/pathways-options].startup",
        ("InOrder", "(InvalidOptions)"),
    ),
    "number": (
        pathways_job(
            metadata=annotated(pathways_options=f'{{"headResources": {{"proxy": {{"limits": {{"a/b": {10**20}}}}}}}}}')
        ),
        "metadata.annotations[gangctl.dev/pathways-options].headResources.proxy.limits.a/b",
        (f"at most {2**63 - 1}", "(InvalidOptions)"),
    ),
    "type": (
        pathways_job(metadata=annotated(gang_mode=False)),  # type: ignore[arg-type]
        "metadata.annotations[gangctl.dev/gang-mode]",
        ("must be a string", "(Malformed)", 'in quotes: "Off"'),
    ),
    "of-the-jobset": (
        pathways_job(metadata=annotated(gangs=UNUSED_CLAIM)),
        "metadata.annotations[gangctl.dev/gangs]",
        ("(the JobSet's metadata.annotations[gangctl.dev/gangs][0].resourceClaims[0])", "(InvalidJobSet)"),
    ),
}
NOT_OF_REQUESTS = {"of-the-jobset"}
"""About gangs: who asks only what is requested does not see it."""


@each("command", COMMANDS, ids=lambda command: command[0])
@each("case", REFUSED)
def test_bad_input_is_one_error_at_its_place(case: str, command: tuple[str, ...], tmp_path: Path) -> None:
    raw, path, words = REFUSED[case]
    if case in NOT_OF_REQUESTS and command[0] in {"fit", "policy"}:
        return
    answer = run(tmp_path, command, raw)
    assert (answer.code, answer.out) == (2, "")
    line, summary, *hint = answer.err.splitlines()
    assert line.startswith(f"{tmp_path / 'a.yaml'}:"), line
    assert f": {path}: " in line, line
    assert summary == "error: 1 error in 1 PathwaysJob"
    assert [word for word in words if word not in "\n".join([line, *hint])] == []


def test_errors_of_all_documents_are_reported_with_their_lines(tmp_path: Path) -> None:
    broken_jobset = gang("js")
    broken_jobset["spec"]["replicatedJobs"][0]["replicas"] = "three"
    first = pathways_job("a", workers={"numSlices": 0, "topology": "x"})
    file = write(tmp_path / "a.yaml", first, broken_jobset, pathways_job("b", workers={"numSlices": -1}))
    lines = gangctl("plan", "-f", file).err.splitlines()
    assert lines[-1] == "error: 4 errors in 1 JobSet and 2 PathwaysJobs"
    text = Path(file).read_text().splitlines()
    for line in lines[:-1]:
        number, path = int(line.split(":")[1]), line.split(": ")[1]
        assert path.rpartition(".")[2] in text[number - 1], line


def test_input_is_not_changed(tmp_path: Path) -> None:
    raw = pathways_job(workers={"nodeSelector": {"a": "b"}})
    (manifest,) = read_manifests([write(tmp_path / "a.yaml", raw)], None, ClusterRules())
    assert isinstance(manifest, Manifest)
    assert manifest.document.value == yaml.safe_load(to_yaml([raw]))
