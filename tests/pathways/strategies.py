"""PathwaysJobs that nothing is wrong with, of every kind that people could write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.pathways.samples import component, container, pathways_job, template

Object = dict[str, Any]

PROPERTY: Final = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Renderings are larger than what other properties look at."""

SLICES: Final = (
    ("ct5p-hightpu-4t", "2x2x1"),
    ("ct5p-hightpu-4t", "2x2x2"),
    ("ct6e-standard-4t", "2x4"),
    ("ct6e-standard-8t", "2x4"),
    ("ct5lp-hightpu-4t", "4x4"),
    ("tpu7x-standard-4t", "4x4x4"),
    ("tpu7x-standard-4t", "4x4x8"),
)
_LABELS: Final = {
    "kueue.x-k8s.io/queue-name": "q",
    "kueue.x-k8s.io/priority-class": "high",
    "team": "a",
    "app.kubernetes.io/instance": "train",
    "app.kubernetes.io/managed-by": "Helm",
}
_ANNOTATIONS: Final = {
    "note": "for people",
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "argocd.argoproj.io/tracking-id": "train:x",
    "gangctl.dev/gang-options": '{"sequenced": "split"}',
    "provreq.kueue.x-k8s.io/maxRunDurationSeconds": "60",
    "alpha.jobset.sigs.k8s.io/node-selector": "true",
}
_TOPOLOGY: Final = {"kueue.x-k8s.io/podset-required-topology": "cloud.google.com/gce-topology-block"}
_VARIABLE: Final = st.builds(
    lambda name, value: {"name": name, "value": value},
    st.sampled_from(["A", "B", "JAX_PLATFORMS", "PATHWAYS_HEAD", "ABSL_FLAGS", "XCLOUD_ENVIRONMENT"]),
    st.sampled_from(["", "x", "$(A)", "$(PATHWAYS_HEAD):1", "$$(A)"]),
)
_VARIABLES: Final = st.lists(_VARIABLE, max_size=4)
_CUSTOM_VARIABLES: Final = st.lists(_VARIABLE, max_size=4, unique_by=lambda each: each["name"])
_TOLERATIONS: Final = st.lists(
    st.sampled_from(
        [{"key": "google.com/tpu", "operator": "Exists"}, {"key": "spot", "operator": "Equal", "value": "yes"}]
    ),
    max_size=2,
)
_AFFINITIES: Final = st.sampled_from(
    [
        {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        },
    ]
)
_SELECTORS: Final = st.dictionaries(
    st.sampled_from(["cloud.google.com/gke-spot", "cloud.google.com/gke-tpu-topology", "disk"]),
    st.sampled_from(["true", "ssd"]),
    max_size=2,
)
NAMES: Final = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
"""Names that fit without a subdomain of their own."""


def _some(of: Mapping[str, str]) -> st.SearchStrategy[dict[str, str]]:
    return st.lists(st.sampled_from(sorted(of)), unique=True).map(lambda keys: {key: of[key] for key in keys})


@st.composite
def user_pods(draw: st.DrawFn, priority: st.SearchStrategy[str]) -> Object:
    """Pod templates with a container named ``main``."""
    pod: Object = {}
    for field, values in (
        ("tolerations", _TOLERATIONS),
        ("affinity", _AFFINITIES),
        ("nodeSelector", _SELECTORS),
        ("restartPolicy", st.sampled_from(["Never", "OnFailure"])),
        ("hostNetwork", st.booleans()),
        ("terminationGracePeriodSeconds", st.integers(0, 600)),
        ("serviceAccountName", st.just("trainer")),
        ("volumes", st.just([{"name": "data", "emptyDir": {}}])),
        ("priorityClassName", priority),
    ):
        if draw(st.booleans()):
            pod[field] = draw(values)
    if draw(st.booleans()):
        pod["initContainers"] = [container("fetch", env=draw(_VARIABLES))]
    others = [container("log")] if draw(st.booleans()) else []
    metadata = {"labels": {"team": "template"}, "annotations": {"a": "b"}} if draw(st.booleans()) else None
    return template(container(env=draw(_VARIABLES)), *others, metadata=metadata, **pod)


@st.composite
def _modes(draw: st.DrawFn, elastic: int) -> tuple[str, str]:
    """Gang modes of JobSet and workers that go together, empty for one that is not set."""
    allowed = [("", ""), ("Off", ""), ("", "Off"), ("", "ReplicatedGang"), ("Off", "ReplicatedGang")]
    if not elastic:
        allowed += [("Gang", ""), ("", "Gang"), ("Off", "Gang")]
    return draw(st.sampled_from(allowed))


@st.composite
def _options(draw: st.DrawFn, machine: str, *, together: bool) -> Object:
    slicings = ["None", "Dynamic"]
    slicings += ["Sub"] if machine == "ct6e-standard-4t" else []
    slicings += ["Super"] if machine == "tpu7x-standard-4t" else []
    values: dict[str, st.SearchStrategy[Any]] = {
        "startup": st.sampled_from(["AnyOrder"] if together else ["AnyOrder", "InOrder", "DependsOn"]),
        "slicing": st.sampled_from(slicings),
        "subdomain": st.sampled_from(["auto", "s"]),
        "headNodeSelector": st.just({"pool": "cpu"}),
        "headResources": st.just({"proxy": {"limits": {"cpu": 4}}}),
        "ttlSecondsAfterFinished": st.integers(0, 3600),
        "unreachableTimeoutSeconds": st.just(60),
        "sharedTmp": st.booleans(),
        "dropMetadata": st.just(["team"]),
        "imagePullPolicy": st.just("Always"),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(values)), unique=True, max_size=4))
    return {name: draw(values[name]) for name in chosen}


@st.composite
def pathways_jobs(draw: st.DrawFn) -> Object:
    """Objects that can be rendered."""
    machine, topology = draw(st.sampled_from(SLICES))
    slices = draw(st.integers(1, 4))
    elastic = draw(st.integers(0, slices - 1)) if draw(st.booleans()) else 0
    colocated = draw(st.booleans())
    jobset_mode, worker_mode = draw(_modes(elastic))
    together = colocated or jobset_mode == "Gang"
    options = draw(_options(machine, together=together))
    priority = draw(st.sampled_from(["", "high"]))
    classes = st.just(priority) if together else st.sampled_from(["high", "low"])
    annotations = draw(_some(_ANNOTATIONS)) | (_TOPOLOGY if draw(st.booleans()) else {})
    annotations |= {"gangctl.dev/pathways-options": json.dumps(options)} if options else {}
    annotations |= {"gangctl.dev/gang-mode": jobset_mode} if jobset_mode else {}
    annotations |= {"gangctl.dev/pathways-worker-mode": worker_mode} if worker_mode else {}
    mode = "colocate_head_with_workers" if colocated else "default"
    headless = draw(st.booleans())
    pod = None if headless else draw(user_pods(classes))
    sidecar = [component("colocated_python_sidecar", image="x:1")] if draw(st.booleans()) else []
    uid = {"uid": "7c1a1f4e-0000-4000-8000-000000000001"} if draw(st.booleans()) else {}
    return pathways_job(
        draw(NAMES),
        metadata={"labels": draw(_some(_LABELS)), "annotations": annotations, **uid},
        workers={
            "type": machine,
            "topology": topology,
            "numSlices": slices,
            "maxSliceRestarts": draw(st.integers(0, 9)),
            "priorityClassName": priority,
            "nodeSelector": draw(_SELECTORS),
            **({"terminationGracePeriodSeconds": 60} if draw(st.booleans()) else {}),
        },
        controller={"deploymentMode": mode, "elasticSlices": elastic, "template": pod},
        headless=headless,
        maxRestarts=draw(st.integers(0, 5)),
        customComponents=[*sidecar, component("worker", customEnv=draw(_CUSTOM_VARIABLES))],
        pathwaysVersion=draw(st.sampled_from(["", "v9"])),
    )
