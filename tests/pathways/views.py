"""Looks into a rendered JobSet: jobs, pods, containers and their environment by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gangctl.errors import ErrorKind
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.problems import Problem
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Rendering, RenderingInputs

Object = dict[str, Any]


def read(raw: Mapping[str, Any], options: PathwaysOptions | None = None) -> PathwaysJob:
    """The job of an object that nothing is wrong with."""
    reading = read_pathways_job(raw, options or PathwaysOptions())
    assert reading.problems == ()
    assert reading.job is not None
    return reading.job


def rendered(raw: Mapping[str, Any], setting: RenderingInputs | None = None) -> Rendering:
    """The rendering of an object that nothing is wrong with."""
    return render(read(raw), setting or RenderingInputs())


def jobset_of(raw: Mapping[str, Any], setting: RenderingInputs | None = None) -> Object:
    """The JobSet of an object that nothing is wrong with."""
    return dict(rendered(raw, setting).jobset)


def only_problem(raw: Mapping[str, Any]) -> Problem:
    """The one error of an object, which has its place and the allowed values."""
    reading = read_pathways_job(raw)
    assert reading.job is None
    (problem,) = reading.problems
    assert problem.error.path
    assert problem.error.detail
    assert problem.error.kind in ErrorKind
    return problem


def replicated_job(jobset: Mapping[str, Any], name: str) -> Object:
    """One of the replicated jobs."""
    (found,) = [each for each in jobset["spec"]["replicatedJobs"] if each["name"] == name]
    return dict(found)


def job_template(jobset: Mapping[str, Any], name: str) -> Object:
    """Metadata and spec of the Jobs of one replicated job."""
    return dict(replicated_job(jobset, name)["template"])


def pod_template(jobset: Mapping[str, Any], name: str) -> Object:
    """Metadata and spec of its pods."""
    return dict(job_template(jobset, name)["spec"]["template"])


def pod(jobset: Mapping[str, Any], name: str) -> Object:
    """The spec of its pods."""
    return dict(pod_template(jobset, name)["spec"])


def notes_on(template: Mapping[str, Any]) -> Mapping[str, str]:
    """Annotations of a template, none where it has no metadata."""
    found: Mapping[str, str] = template.get("metadata", {}).get("annotations", {})
    return found


def all_containers(pod_spec: Mapping[str, Any]) -> Iterator[Object]:
    """Init containers and containers."""
    yield from pod_spec.get("initContainers", [])
    yield from pod_spec["containers"]


def container(pod_spec: Mapping[str, Any], name: str) -> Object:
    """A container, init or not, by its name."""
    (found,) = [each for each in all_containers(pod_spec) if each["name"] == name]
    return found


def names(entries: list[Object]) -> list[str]:
    """Names of a list of objects that have one."""
    return [each["name"] for each in entries]


def environment(of: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a container's environment by name; what comes from elsewhere is its ``valueFrom``."""
    entries = of.get("env", [])
    found = {each["name"]: each.get("value", each.get("valueFrom")) for each in entries}
    assert len(found) == len(entries), f"a name twice in {[each['name'] for each in entries]}"
    return found
