"""What is no PathwaysJob, or has fields of other types and names."""

from __future__ import annotations

from typing import Final

from gangctl.pathways.problems import InvalidReason as Why
from tests.pathways.refused.case import POD, WORKER, Refused, put, user
from tests.pathways.samples import component, container, pathways_job, template

FORMS: Final = (
    Refused("no version", put("apiVersion"), Why.MALFORMED, "apiVersion", "pathways-job.pathways.domain/v1"),
    Refused(
        "another version",
        {**pathways_job(), "apiVersion": "pathways-job.pathways.domain/v2"},
        Why.MALFORMED,
        "apiVersion",
        "allowed: pathways-job.pathways.domain/v1",
    ),
    Refused("another kind", {**pathways_job(), "kind": "Job"}, Why.MALFORMED, "kind", "allowed: PathwaysJob"),
    Refused("a list for a spec", {**pathways_job(), "spec": []}, Why.MALFORMED, "spec", "an object, got a list", True),
    Refused(
        "a text for a number",
        pathways_job(workers={"numSlices": "2"}),
        Why.MALFORMED,
        f"{WORKER}.numSlices",
        'an integer, got "2"',
        True,
    ),
    Refused(
        "true for a number",
        pathways_job(maxRestarts=True),
        Why.MALFORMED,
        "spec.maxRestarts",
        "must be an integer, got true",
        True,
    ),
    Refused(
        "a number too large",
        pathways_job(maxRestarts=2**40),
        Why.MALFORMED,
        "spec.maxRestarts",
        "an integer of 32 bits",
        True,
    ),
    Refused(
        "a text for a list",
        user(container(args="--steps=1")),
        Why.MALFORMED,
        f"{POD}.containers[0].args",
        "a list of strings",
    ),
    Refused(
        "a number in a list of texts",
        user(container(args=["--steps", 1])),
        Why.MALFORMED,
        f"{POD}.containers[0].args[1]",
        "a string, got 1",
    ),
    Refused(
        "more flags than anybody reads",
        pathways_job(customComponents=[component("worker", customFlags=["--a"] * 10_001)]),
        Why.MALFORMED,
        "spec.customComponents[0].customFlags",
        "at most 10000",
    ),
    Refused(
        "a list for a number",
        pathways_job(controller={"elasticSlices": [1]}),
        Why.MALFORMED,
        "spec.controller.elasticSlices",
        "an integer, got a list",
        True,
    ),
    Refused(
        "a number for a variable",
        user(container(env=[{"name": "A", "value": 1}])),
        Why.MALFORMED,
        f"{POD}.containers[0].env[0].value",
        "must be a string, got 1",
    ),
    Refused(
        "containers beside the pod",
        pathways_job(controller={"template": {**template(), "containers": []}}),
        Why.MALFORMED,
        "spec.controller.template.containers",
        "allowed: metadata, spec",
    ),
    *(
        Refused(
            f"unknown field {path}",
            value,
            Why.MALFORMED,
            path,
            f"did you mean {meant}?",
        )
        for path, value, meant in (
            ("spec.maxRestart", pathways_job(maxRestart=1), "maxRestarts"),
            (f"{WORKER}.numSlice", pathways_job(workers={"numSlice": 1}), "numSlices"),
            ("spec.controller.elasticSlice", pathways_job(controller={"elasticSlice": 1}), "elasticSlices"),
            (
                "spec.customComponents[0].customFlag",
                pathways_job(customComponents=[component("worker", image="a/b", customFlag=[])]),
                "customFlags",
            ),
        )
    ),
)
