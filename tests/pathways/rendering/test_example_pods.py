"""The pods of the examples, in both profiles: checked for what an API server, a kubelet and Pathways would refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import yaml

from gangctl.api.quantity import milli, parse_quantity
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.rendering.environment import references
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Profile, RenderingInputs
from gangctl.pathways.words import is_pathways_job
from tests.rows import each

EXAMPLES: Final = Path(__file__).parents[3] / "examples" / "pathways"
FILES: Final = sorted(EXAMPLES.glob("*.yaml"))
PROFILES: Final = tuple(Profile)
OURS: Final = {"pathways-rm", "pathways-proxy", "pathways-worker", "colocated-python-sidecar"}


def jobs(path: Path) -> Iterator[PathwaysJob]:
    for raw in filter(is_pathways_job, yaml.safe_load_all(path.read_text())):
        reading = read_pathways_job(raw)
        assert reading.job is not None, reading.problems
        yield reading.job


def pods(path: Path, profile: Profile) -> Iterator[dict[str, Any]]:
    for job in jobs(path):
        for replicated in render(job, RenderingInputs(profile=profile)).jobset["spec"]["replicatedJobs"]:
            yield replicated["template"]["spec"]["template"]["spec"]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


def test_there_are_examples() -> None:
    assert FILES


@each("profile", PROFILES)
@each("path", FILES, ids=lambda path: path.stem)
def test_names_are_unique(path: Path, profile: Profile) -> None:
    for pod in pods(path, profile):
        names = Counter(container["name"] for container in containers(pod))
        variables = Counter(
            (container["name"], each["name"]) for container in containers(pod) for each in container.get("env", ())
        )
        ports = Counter(each["containerPort"] for container in containers(pod) for each in container.get("ports", ()))
        assert max((*names.values(), *variables.values(), *ports.values())) == 1


@each("profile", PROFILES)
@each("path", FILES, ids=lambda path: path.stem)
def test_references_find_what_was_declared_before(path: Path, profile: Profile) -> None:
    for pod in pods(path, profile):
        for container in containers(pod):
            declared: set[str] = set()
            for item in container.get("env", ()):
                assert set(references(item.get("value", ""))) <= declared
                declared.add(item["name"])
            if container["name"] in OURS:
                assert {name for argument in container.get("args", ()) for name in references(argument)} <= declared


@each("profile", PROFILES)
@each("path", FILES, ids=lambda path: path.stem)
def test_mounts_have_their_volumes_and_volumes_their_mounts(path: Path, profile: Profile) -> None:
    for pod in pods(path, profile):
        mounted = {mount["name"] for container in containers(pod) for mount in container.get("volumeMounts", ())}
        assert mounted == {volume["name"] for volume in pod.get("volumes", ())}


@each("profile", PROFILES)
@each("path", FILES, ids=lambda path: path.stem)
def test_each_container_of_the_head_has_requests(path: Path, profile: Profile) -> None:
    for job in jobs(path):
        rendering = render(job, RenderingInputs(profile=profile))
        pod = rendering.jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        ours = [container for container in containers(pod) if container["name"] in OURS]
        assert [set(container["resources"]["requests"]) for container in ours] == [{"cpu", "memory"}] * 2
        requests = [container["resources"]["requests"] for container in containers(pod)]
        cpus = sum((parse_quantity(each["cpu"]) for each in requests), Fraction())
        assert rendering.head_requests["cpu"] == milli(cpus)


@each("path", FILES, ids=lambda path: path.stem)
def test_only_the_main_container_gets_the_proxy_address(path: Path) -> None:
    for job in jobs(path):
        jobset = render(job).jobset
        reported = [
            container["name"]
            for replicated in jobset["spec"]["replicatedJobs"]
            for container in containers(replicated["template"]["spec"]["template"]["spec"])
            if "JAX_BACKEND_TARGET" in {each["name"] for each in container.get("env", ())}
        ]
        assert reported == ([] if job.headless else [job.main_container])
