"""Groups of workers, and the numbers that go with them."""

from __future__ import annotations

from typing import Final

from gangctl.pathways.problems import InvalidReason as Why
from tests.pathways.refused.case import WORKER, Refused, put
from tests.pathways.samples import pathways_job

_GROUP: Final = pathways_job()["spec"]["workers"][0]

WORKERS: Final = (
    Refused("no workers", put("spec", "workers"), Why.INVALID_WORKERS, "spec.workers", "exactly one group", True),
    Refused(
        "empty workers", put("spec", "workers", value=[]), Why.INVALID_WORKERS, "spec.workers", "one group of", True
    ),
    Refused(
        "two groups",
        put("spec", "workers", value=[_GROUP, {**_GROUP, "type": "ct4p-hightpu-4t"}]),
        Why.INVALID_WORKERS,
        "spec.workers",
        "exactly one group of workers, got 2",
        True,
    ),
    Refused(
        "unknown machine",
        pathways_job(workers={"type": "ct5p-hightpu"}),
        Why.UNKNOWN_ACCELERATOR,
        f"{WORKER}.type",
        "did you mean ct5p-hightpu-4t?, allowed: tpu7x-standard-4t",
        True,
    ),
    Refused(
        "machine of flags only",
        pathways_job(workers={"type": "tpu7-standard-4t"}),
        Why.UNKNOWN_ACCELERATOR,
        f"{WORKER}.type",
        "allowed: tpu7x-standard-4t",
        True,
    ),
    Refused(
        "no machine", pathways_job(workers={"type": None}), Why.UNKNOWN_ACCELERATOR, f"{WORKER}.type", "required", True
    ),
    Refused(
        "unknown topology",
        pathways_job(workers={"topology": "2x2x3"}),
        Why.INVALID_TOPOLOGY,
        f"{WORKER}.topology",
        "2x2x2",
        True,
    ),
    *(
        Refused(
            f"topology {text!r}",
            pathways_job(workers={"topology": text}),
            Why.INVALID_TOPOLOGY,
            f"{WORKER}.topology",
            "3 positive numbers with x between them",
            True,
        )
        for text in ("16*24*24", "16x15", "4x0x4", "")
    ),
    Refused(
        "no topology",
        pathways_job(workers={"topology": None}),
        Why.INVALID_TOPOLOGY,
        f"{WORKER}.topology",
        "empty",
        True,
    ),
    *(
        Refused(
            f"{number} slices",
            pathways_job(workers={"numSlices": number}),
            Why.INVALID_NUM_SLICES,
            f"{WORKER}.numSlices",
            f"at least 1 and at most 49999, got {number}",
            number < 1,
        )
        for number in (0, -1, 50_000)
    ),
    Refused(
        "no number of slices",
        pathways_job(workers={"numSlices": None}),
        Why.INVALID_NUM_SLICES,
        f"{WORKER}.numSlices",
        "at least 1",
        True,
    ),
    *(
        Refused(
            f"{number} of two elastic",
            pathways_job(controller={"elasticSlices": number}),
            Why.INVALID_ELASTIC_SLICES,
            "spec.controller.elasticSlices",
            f"at least 0 and less than spec.workers[0].numSlices, which is 2; got {number}",
            True,
        )
        for number in (-1, 2, 3)
    ),
    Refused(
        "negative restarts",
        pathways_job(maxRestarts=-1),
        Why.INVALID_RESTARTS,
        "spec.maxRestarts",
        "at least 0, got -1",
        True,
    ),
    Refused(
        "negative restarts of slices",
        pathways_job(workers={"maxSliceRestarts": -2}),
        Why.INVALID_RESTARTS,
        f"{WORKER}.maxSliceRestarts",
        "at least 0, got -2",
        True,
    ),
    Refused(
        "more restarts than a Job counts",
        pathways_job(workers={"maxSliceRestarts": 2**30}),
        Why.INVALID_RESTARTS,
        f"{WORKER}.maxSliceRestarts",
        "at most 1073741823 with 2 VMs in a slice",
    ),
    Refused(
        "negative grace",
        pathways_job(workers={"terminationGracePeriodSeconds": -1}),
        Why.INVALID_GRACE_PERIOD,
        f"{WORKER}.terminationGracePeriodSeconds",
        "at least 0 seconds, got -1",
        True,
    ),
)
