"""`fits` is said only where all that decides was looked at, and `never` only where nothing outside could lift it."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.cli.fitfiles import (
    BY_NAME,
    CLAIMS,
    KUEUE,
    MANAGED,
    MAPPED,
    PARTLY,
    POD_CLASS,
    PRIORITY,
    RACK,
    TEAM,
    configuration,
    fit,
    gangs,
    kueue,
    namespace,
    owned,
    queues,
)
from tests.cli.kueueobjects import Object, flavor, local_queue
from tests.cli.run import gangctl
from tests.rows import each


@each(
    ("asked", "there", "verdict", "words"),
    [
        # Claims for devices (DRA)
        (gangs(pod=CLAIMS), queues(configured=MAPPED), "unknown", "claims (resourceClaims), which"),
        (gangs(pod=CLAIMS), queues(), "unknown", "claims (resourceClaims), which Kueue counts"),
        # Classes of priority
        (gangs(labels={PRIORITY: "high"}), queues(kueue("WorkloadPriorityClass", "high")), "fits", ""),
        (
            gangs(labels={PRIORITY: "high"}),
            queues(kueue("WorkloadPriorityClass", "low")),
            "not-now",
            'WorkloadPriorityClass "high" does not exist, and without it Kueue makes no Workload; create it',
        ),
        (
            gangs(labels={PRIORITY: "high"}),
            queues(),
            "unknown",
            'WorkloadPriorityClass "high" exists',
        ),
        (
            gangs(pod={"priorityClassName": "high"}),
            queues(POD_CLASS),
            "not-now",
            'PriorityClass "high" does not exist',
        ),
        (gangs(pod={"priorityClassName": "low"}), queues(POD_CLASS), "fits", ""),
        (
            gangs(pod={"priorityClassName": "low"}),
            queues(),
            "unknown",
            'PriorityClass "low" exists',
        ),
        (
            gangs(pod={"priorityClassName": "system-node-critical"}),
            queues(POD_CLASS),
            "fits",
            "",
        ),
        (
            gangs(pod={"priorityClassName": "system-gpu"}),
            queues(POD_CLASS),
            "not-now",
            'PriorityClass "system-gpu" does not exist',
        ),
        # What would make no room does not hide a never.
        (
            gangs(labels={PRIORITY: "high"}),
            queues(cpu=2),
            "never",
            "never give more than 2",
        ),
        # Selectors of namespaces
        (gangs(), queues(namespaceSelector=TEAM), "unknown", "kubectl get namespace t -o yaml"),
        (gangs(), queues(namespace("t", team="a"), namespaceSelector=TEAM), "fits", ""),
        (gangs(), queues(namespace("t", team="b"), namespaceSelector=TEAM), "not-now", "team in (a)"),
        (gangs(), queues(namespaceSelector=BY_NAME), "fits", ""),
        (gangs(), queues(namespace("t"), namespaceSelector=BY_NAME), "fits", ""),
        # Elastic jobs
        (gangs(elastic_job="true"), queues(), "unknown", "refuses annotation kueue.x-k8s.io/elastic-job"),
        (gangs(elastic_job="false"), queues(), "fits", ""),
        (
            gangs(elastic_job="true"),
            queues(configured=configuration(featureGates={"ElasticJobsViaWorkloadSlices": False})),
            "fits",
            "",
        ),
        # Admission gates
        (
            gangs(admission_gated_by="a.b/c"),
            queues(),
            "not-now",
            "before a.b/c is removed from kueue.x-k8s.io/admission",
        ),
        (gangs(admission_gated_by=""), queues(), "fits", ""),
        (gangs("", admission_gated_by="a.b/c"), queues(), "fits", ""),
        (gangs(admission_gated_by="a.b/c"), queues(cpu=2), "never", "never give more than 2"),
        (
            gangs(admission_gated_by="a.b/c"),
            queues(configured=configuration(featureGates={"AdmissionGatedBy": False})),
            "fits",
            "",
        ),
        # JobSets without a queue
        (
            gangs(""),
            queues(configured=MANAGED),
            "not-now",
            "; set label kueue.x-k8s.io/queue-name to a LocalQueue of its namespace: q",
        ),
        (gangs(), queues(configured=MANAGED), "fits", ""),
        (gangs(""), queues(local_queue("default", "cq"), configured=MANAGED), "fits", ""),
        (gangs(""), queues(configured=PARTLY), "unknown", "kubectl get namespace t -o yaml"),
        (gangs(""), queues(namespace("t", team="b"), configured=PARTLY), "fits", ""),
        (gangs(""), queues(namespace("t", team="a"), configured=PARTLY), "not-now", "queue-name"),
        (owned(), queues(configured=MANAGED), "unknown", "the object that controls it"),
        (gangs(""), queues(), "fits", "no quota holds it back."),
        (
            gangs("", queue_name="q"),
            queues(),
            "fits",
            "Kueue does not read annotation kueue.x-k8s.io/queue-name: write it as a label",
        ),
    ],
    ids=[
        "claims, mapped",
        "claims, not mapped",
        "class there",
        "class missing",
        "no classes read",
        "class of pods missing",
        "class of pods",
        "no classes of pods",
        "a class of Kubernetes",
        "no class of Kubernetes",
        "class not read, too small",
        "labels not read",
        "selected",
        "not selected",
        "selected by name",
        "by name, in files",
        "elastic",
        "not elastic",
        "elastic, gate off",
        "gated",
        "gate removed",
        "gated without a queue",
        "gated, too small",
        "gated, gate off",
        "managed without a queue",
        "managed, with a queue",
        "managed, default queue",
        "perhaps managed",
        "not managed here",
        "managed here",
        "of a TrainJob",
        "not managed",
        "a queue in an annotation",
    ],
)
def test_a_verdict_is_as_far_as_it_looked(
    asked: Object, there: list[Object], verdict: str, words: str, tmp_path: Path
) -> None:
    answer = fit(tmp_path, asked, *there)
    assert answer.json["verdict"] == verdict, answer.json["message"]
    assert words in answer.json["message"]
    assert verdict == "never" or bool(answer.json["unknown"]) is (verdict == "unknown")


@each(
    ("gate", "words"),
    [
        (True, "Kueue would preempt"),
        (False, "short now"),
        # The default of the gate depends on Kueue's version.
        (None, "its priority is not known"),
    ],
)
def test_the_default_class_of_kueue_gives_a_priority(gate: bool | None, words: str, tmp_path: Path) -> None:
    used = {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "t", "uid": "w"},
        "spec": {"queueName": "q", "priority": 5, "podSets": [{"name": "w", "count": 8, "template": {"spec": {}}}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admission": {
                "clusterQueue": "cq",
                "podSetAssignments": [
                    {"name": "w", "count": 8, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "8"}}
                ],
            },
        },
    }
    configured = configuration(**({} if gate is None else {"featureGates": {"WorkloadPriorityClassDefaulting": gate}}))
    default = kueue("WorkloadPriorityClass", "default", value=9)
    there = queues(used, default, configured=configured, preemption={"withinClusterQueue": "LowerPriority"})
    answer = fit(tmp_path, gangs(), *there)
    assert answer.json["verdict"] == "not-now"
    assert words in answer.json["message"]


def groups(first: dict[str, str], second: dict[str, str]) -> list[Object]:
    """Two resource groups, whose flavors have these labels."""

    def of(resource: str, name: str) -> Object:
        flavors = [{"name": name, "resources": [{"name": resource, "nominalQuota": 8}]}]
        return {"coveredResources": [resource], "flavors": flavors}

    queue = kueue(
        "ClusterQueue", "cq", spec={"namespaceSelector": {}, "resourceGroups": [of("cpu", "a"), of("x/gpu", "b")]}
    )
    flavors = [
        kueue("ResourceFlavor", name, spec={"nodeLabels": labels}) for name, labels in (("a", first), ("b", second))
    ]
    return [*flavors, queue, local_queue("q", "cq"), configuration()]


@each(
    ("first", "second", "gpus", "verdict"),
    [
        ({"pool": "a"}, {"pool": "b"}, 1, "unknown"),
        ({"pool": "a"}, {"pool": "b"}, 0, "fits"),
        ({"pool": "a"}, {"pool": "a", "gpu": "yes"}, 1, "fits"),
        ({"pool": "a"}, {}, 1, "fits"),
    ],
)
def test_node_labels_of_two_flavors_that_contradict_each_other(
    first: dict[str, str], second: dict[str, str], gpus: int, verdict: str, tmp_path: Path
) -> None:
    asked = gangs()
    container = asked["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    if gpus:
        container["resources"]["requests"]["x/gpu"] = str(gpus)
        container["resources"]["limits"] = {"x/gpu": str(gpus)}
    answer = fit(tmp_path, asked, *groups(first, second))
    assert answer.json["verdict"] == verdict, answer.json["message"]
    assert ("nodeLabels[pool]" in answer.json["message"]) is (verdict == "unknown")


@each(
    ("nominal", "effective", "cohort", "verdict"),
    [
        (2, 8, None, "fits"),
        (8, 2, None, "not-now"),
        (2, None, None, "never"),
        # A cohort whose quota is computed may lend more later.
        (2, None, 1, "not-now"),
        (2, None, 8, "fits"),
    ],
)
def test_quotas_of_an_orchestrator_replace_those_of_the_spec(
    nominal: int, effective: int | None, cohort: int | None, verdict: str, tmp_path: Path
) -> None:
    """Dynamic Quota Orchestration of Kueue 0.20 (KEP-12382)."""

    def quotas(amount: int) -> list[Object]:
        flavors = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": amount}]}]
        return [{"coveredResources": ["cpu"], "flavors": flavors}]

    def computed(amount: int) -> Object:
        by = {"apiGroup": "kueue.x-k8s.io", "kind": "DynamicQuotaOrchestrator", "name": "all"}
        return {"status": {"effectiveQuotas": {"orchestratorRef": by, "resourceGroups": quotas(amount)}}}

    spec = {"namespaceSelector": {}, "cohortName": "c", "resourceGroups": quotas(nominal)}
    queue = kueue("ClusterQueue", "cq", spec=spec, **(computed(effective) if effective is not None else {}))
    root = kueue("Cohort", "c", spec={"resourceGroups": quotas(1)}, **(computed(cohort) if cohort is not None else {}))
    answer = fit(tmp_path, gangs(), flavor(), queue, root, local_queue("q", "cq"), configuration())
    assert answer.json["verdict"] == verdict, answer.json["message"]
    assert ('the quotas that DynamicQuotaOrchestrator "all" gives now' in answer.json["message"]) is (
        verdict == "not-now"
    )


@each(("size", "verdict"), [("2", "fits"), ("3", "unknown"), ("4", "fits")])
def test_slices_that_leave_a_remainder_do_not_fit(size: str, verdict: str, tmp_path: Path) -> None:
    asked = gangs()
    template = asked["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    notes = {"podset-slice-required-topology": RACK, "podset-slice-size": size}
    template["metadata"] = {"annotations": {f"kueue.x-k8s.io/{key}": text for key, text in notes.items()}}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {RACK: "r"}},
        "status": {
            "allocatable": {"cpu": "9", "pods": "9"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "t"}, "spec": {"containers": []}}
    there = queues(node, pod, kueue("Topology", "t", spec={"levels": [{"nodeLabel": RACK}]}))
    there[0] = kueue("ResourceFlavor", "f", spec={"topologyName": "t", "nodeLabels": {RACK: "r"}})
    answer = fit(tmp_path, asked, *there)
    assert answer.json["verdict"] == verdict, answer.json["message"]
    assert ("1 of 4 pods" in answer.json["message"]) is (verdict == "unknown")


def test_why_names_the_queue_that_a_managed_jobset_lacks(tmp_path: Path) -> None:
    asked = gangs("")
    asked["metadata"] |= {"uid": "u", "creationTimestamp": "2026-11-27T01:00:00Z"}
    asked["spec"]["suspend"] = True
    config = {"controller_manager_config.yaml": json.dumps(MANAGED)}
    held = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
        "data": config,
    }
    (tmp_path / "dump.yaml").write_text(yaml.safe_dump_all([asked, *queues()[:3], held]))
    answer = gangctl("why", "train", "-n", "t", "-f", str(tmp_path / "dump.yaml"))
    assert "never starts without a queue: Kueue suspends every JobSet here" in " ".join(answer.out.split())
    assert "kueue.x-k8s.io/queue-name" in answer.out
    assert "spec.suspend to false" not in answer.out
