"""``gangctl fit`` against a cluster, with all rights and with some."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from gangctl.api.meta import API_VERSION, EXPECTED_DURATION, SKIP_LABEL
from gangctl.cli.queue.report import FREE
from gangctl.client.client import Client
from tests.cli.httpserver import ask
from tests.cli.kueueobjects import (
    CONFIGURATION,
    LATER,
    Object,
    cluster,
    cluster_queue,
    condition,
    flavor,
    local_queue,
    queued,
    reserving,
    workload,
)
from tests.cli.kueueserver import config_map, labelled, serving
from tests.cli.manifests import write
from tests.rows import each

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


def there(cpu: str = "8", *more: Object, **spec: object) -> Sequence[Object]:
    """A cluster as it is, Kueue's configuration where Kueue keeps it."""
    objects = [each for each in cluster(cpu, **spec) if each is not CONFIGURATION]
    return [*objects, config_map(CONFIGURATION), labelled("t"), *more]


async def test_a_jobset_of_the_cluster_is_evaluated(tmp_path: Path) -> None:
    stored = queued(pods=9, uid="uid-train")
    own = workload("train", "q", condition("QuotaReserved", False, "Pending", "insufficient quota"))
    async with serving(*there("8", stored, own)) as (server, url):
        answer = await ask(tmp_path, url, "fit", "train")
        elsewhere = await ask(tmp_path, url, "fit", "train", "-n", "u")
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith("JobSet t/train: never fits (NeverExceedsQuota)\n")
    assert "(Pending, insufficient quota)" in answer.out
    assert (elsewhere.code, elsewhere.out) == (1, "")
    assert 'jobsets.jobset.x-k8s.io "train" not found in namespace "u"' in elsewhere.err
    assert {method for method, _ in server.asked} == {"GET"}


async def test_a_trainjob_without_a_jobset_is_named(tmp_path: Path) -> None:
    async with serving(*there("8")) as (_, url):
        answer = await ask(tmp_path, url, "fit", "trainjob/train", "-n", "u")
    assert (answer.code, answer.out) == (1, "")
    assert "hint: this is the JobSet that TrainJob train becomes; kubectl describe trainjob train -n u " in answer.err


async def test_a_cluster_without_jobsets_is_an_error(tmp_path: Path) -> None:
    async with serving(*there("8")) as (_, url):
        answer = await ask(tmp_path, f"{url}/nothing", "fit", "train")
    assert (answer.code, answer.out) == (3, "")
    assert "error: the cluster does not serve JobSets" in answer.err


async def test_a_stored_jobset_without_a_queue_gets_no_default(tmp_path: Path) -> None:
    """Nor does one that was exported: by its UID it exists."""
    stored = queued(queue="", pods=9, uid="uid-train")
    files = write(tmp_path / "a.yaml", stored), write(tmp_path / "b.yaml", queued(queue="", pods=9))
    policy = giving({"queue": "q"})
    for more, queue in (((local_queue("default", "cq"),), "default"), ((policy,), "q")):
        async with serving(*there("8", stored, *more)) as (_, url):
            answer = await ask(tmp_path, url, "fit", "train", "-o", "json")
            exported, new = [await ask(tmp_path, url, "fit", "-f", file, "-o", "json") for file in files]
        assert (answer.code, answer.json["reason"], exported.json) == (0, "NotQueued", answer.json)
        assert (new.code, new.json["queue"]) == (1, queue)


def giving(defaults: Object, name: str = "team-queues", **spec: object) -> Object:
    """A GangPolicy with defaults."""
    metadata = {"name": name, "generation": 1}
    return {
        "apiVersion": API_VERSION,
        "kind": "GangPolicy",
        "metadata": metadata,
        "spec": {"defaults": defaults, **spec},
    }


POLICIES = f"/apis/{API_VERSION}/gangpolicies"


async def test_a_new_jobset_has_the_queue_that_a_policy_gives_it(tmp_path: Path) -> None:
    """As gangctl's webhook would, before Kueue's default LocalQueue."""
    file, stored = write(tmp_path / "a.yaml", queued(queue="", pods=9)), queued("old", queue="", pods=9, uid="u")
    policy = giving({"queue": "q"})
    async with serving(*there("8", stored, policy, local_queue("default", "cq"))) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
        shown = await ask(tmp_path, url, "fit", "-f", file)
        other = await ask(tmp_path, url, "fit", "-f", file, "--queue", "default", "-o", "json")
        of_cluster = await ask(tmp_path, url, "fit", "old", "-o", "json")
        largest = await ask(tmp_path, url, "fit", "-f", file, "--largest", "-o", "json")
    assert (answer.code, answer.json["queue"], answer.json["verdict"]) == (1, "q", "never")
    assert 'metadata.labels[kueue.x-k8s.io/queue-name]: "q", default of team-queues\n' in shown.out
    assert other.json["queue"] == "default"
    assert of_cluster.json["reason"] == "NotQueued", "defaults are given at CREATE alone"
    assert largest.json["queue"] == "q"


@each(
    ("defaults", "spec", "queue"),
    [
        ({"queues": [{"match": {"namespaceSelector": {"matchLabels": {"team": "a"}}}, "queue": "q"}]}, {}, "q"),
        ({"queues": [{"match": {"namespaceSelector": {"matchLabels": {"team": "b"}}}, "queue": "q"}]}, {}, ""),
        ({"queue": "q"}, {"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'train'"}]}, "q"),
        ({"queue": "q"}, {"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'x'"}]}, ""),
        ({"queue": "q"}, {"matchConstraints": {"namespaceSelector": {"matchLabels": {"team": "b"}}}}, ""),
    ],
)
async def test_defaults_are_those_of_policies_that_match(
    defaults: Object, spec: Object, queue: str, tmp_path: Path
) -> None:
    objects = [each for each in there("8") if each["kind"] != "Namespace"]
    file = write(tmp_path / "a.yaml", queued(queue=""))
    async with serving(*objects, labelled("t", team="a"), giving(defaults, **spec)) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    assert (answer.err, answer.json["queue"]) == ("", queue)


async def test_a_namespace_that_gangctl_does_not_serve_has_no_defaults(tmp_path: Path) -> None:
    objects = [each for each in there("8") if each["kind"] != "Namespace"]
    skipped = labelled("t", **{SKIP_LABEL: "true"})
    async with serving(*objects, skipped, giving({"queue": "q"})) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", write(tmp_path / "a.yaml", queued(queue="")), "-o", "json")
    assert answer.json["reason"] == "NotQueued"


async def test_defaults_that_cannot_be_given_are_noted(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", queued(queue=""))
    two = [giving({"queue": "q"}), giving({"queue": "r"}, "others")]
    conditions = [{"name": "c", "expression": "object.spec.x.y == 1"}]
    unclear = giving({"queue": "q"}, matchConditions=conditions)
    excused = giving({"queue": "q"}, matchConditions=conditions, failurePolicy="Ignore")
    broken = giving({"queue": "q"}, matchConditions=[{"name": "c", "expression": "objet"}])
    for policies, words in (
        (two, "t/train: gangctl refuses it: metadata.labels[kueue.x-k8s.io/queue-name]: policies disagree on the"),
        (
            [unclear],
            "t/train: gangctl refuses it: whether it has the defaults of GangPolicy team-queues is not known: ",
        ),
        ([excused], "t/train: whether it has the defaults of GangPolicy team-queues is not known: "),
        ([broken], "left out: gangpolicy/team-queues: spec.matchConditions[0].expression: "),
    ):
        async with serving(*there("8"), *policies) as (_, url):
            answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
        assert words in answer.err
        assert answer.json["reason"] == "NotQueued"


async def test_without_the_right_to_read_policies_what_they_may_give_is_not_known(tmp_path: Path) -> None:
    none, own = write(tmp_path / "a.yaml", queued(queue="")), write(tmp_path / "b.yaml", queued())
    async with serving(*there("8"), giving({"queue": "q"}), forbidden={POLICIES}) as (_, url):
        unqueued = (await ask(tmp_path, url, "fit", "-f", none, "-o", "json")).json
        queue = (await ask(tmp_path, url, "fit", "-f", own, "-o", "json")).json
    assert (unqueued["verdict"], unqueued["reason"]) == ("unknown", "MayFit")
    assert unqueued["unknown"] == ["whether a GangPolicy gives it a queue: gangpolicies may not be read"]
    assert queue["verdict"] == "fits"
    assert "defaults of GangPolicies: gangpolicies may not be read" in queue["notLookedAt"]


async def test_a_file_is_evaluated_against_a_cluster(tmp_path: Path) -> None:
    raw = queued(pods=8)
    del raw["metadata"]["namespace"]
    file = write(tmp_path / "a.yaml", raw)
    others = workload("other", "r", held={"f": {"cpu": "1"}}, namespace="u")
    async with serving(*there("8", others)) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "--now", "-o", "json")
    assert (answer.code, answer.json["verdict"], answer.json["metadata"]["namespace"]) == (1, "not-now", "t")
    assert [each["name"] for each in answer.json["holders"]] == ["other"]


async def test_a_cluster_without_kueue_is_reported(tmp_path: Path) -> None:
    async with serving(kueue=False) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", write(tmp_path / "a.yaml", queued()))
    assert (answer.code, answer.out) == (3, "")
    assert "error: the cluster does not have Kueue" in answer.err
    assert "hint: gangctl fit --fixed-nodes" in answer.err


@each("path", [f"{KUEUE}/clusterqueues", f"{KUEUE}/namespaces/t/localqueues"])
async def test_without_the_right_to_read_queues_it_is_an_error(path: str, tmp_path: Path) -> None:
    async with serving(*there(), forbidden={path}) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", write(tmp_path / "a.yaml", queued()))
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith("error: ")


@each(
    ("path", "words"),
    [
        (f"{KUEUE}/cohorts", "cohorts may not be read"),
        (f"{KUEUE}/resourceflavors", "resourceflavors may not be read"),
        (f"{KUEUE}/admissionchecks", "admissionchecks may not be read"),
        ("/api/v1/namespaces/t/limitranges", "limitranges of namespace t may not be read"),
        ("/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config", "onfiguration"),
    ],
)
async def test_forbidden_objects_make_the_verdict_unknown(path: str, words: str, tmp_path: Path) -> None:
    async with serving(*there("8"), forbidden={path}) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", write(tmp_path / "a.yaml", queued(pods=9)), "-o", "json")
    assert (answer.code, answer.json["verdict"]) == (0, "unknown")
    assert any(words in each for each in answer.json["unknown"])


_QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota"}


@each(("forbidden", "reason"), [(set[str](), "PodsRefused"), ({"/api/v1/namespaces/t/resourcequotas"}, "MayFit")])
async def test_resource_quotas_of_the_namespace_are_read(forbidden: set[str], reason: str, tmp_path: Path) -> None:
    quotas = [
        {**_QUOTA, "metadata": {"name": "q", "namespace": home}, "spec": {"hard": {"pods": most}}}
        for home, most in (("t", "2"), ("u", "1"))
    ]
    file = write(tmp_path / "a.yaml", queued(pods=3))
    async with serving(*there("8", *quotas), forbidden=forbidden) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    assert answer.json["reason"] == reason
    unknown = ["what the ResourceQuotas of its namespace allow: they may not be read"]
    assert answer.json["unknown"] == (unknown if forbidden else [])


@each(("counted", "reason"), [("count/jobs.batch", "Fits"), ("count/pods", "WaitsForResourceQuota")])
async def test_the_jobs_of_a_suspended_jobset_are_counted_by_quotas_already(
    counted: str, reason: str, tmp_path: Path
) -> None:
    metadata, hard = {"name": "q", "namespace": "t"}, {counted: "4"}
    quota = {**_QUOTA, "metadata": metadata, "spec": {"hard": hard}, "status": {"used": hard}}
    stored = queued(uid="uid-train")
    stored["spec"]["suspend"] = True
    async with serving(*there("8", quota, stored)) as (_, url):
        answer = await ask(tmp_path, url, "fit", "train", "-o", "json")
    assert answer.json["reason"] == reason, answer.json["message"]


async def test_the_namespace_of_the_configuration_can_be_given(tmp_path: Path) -> None:
    objects = [each for each in there("8") if each["kind"] != "ConfigMap"]
    file = write(tmp_path / "a.yaml", queued(pods=9))
    async with serving(*objects, config_map(CONFIGURATION, "queueing")) as (_, url):
        assert (await ask(tmp_path, url, "fit", "-f", file)).code == 0
        assert (await ask(tmp_path, url, "fit", "-f", file, "--kueue-namespace", "queueing")).code == 1


async def test_with_rights_in_one_namespace_the_uncounted_sources_are_reported(tmp_path: Path) -> None:
    mine = workload("mine", "q", held={"f": {"cpu": "4"}})
    others = workload("other", "r", held={"f": {"cpu": "4"}}, namespace="u")
    file = write(tmp_path / "a.yaml", queued(pods=4))
    closed = {f"{KUEUE}/workloads", f"{KUEUE}/workloadpriorityclasses", "/api/v1/namespaces/t"}
    async with serving(*there("8", mine, others), forbidden=closed) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    assert (answer.code, answer.json["verdict"], answer.json["reason"]) == (0, "unknown", "MayFit")
    assert answer.json["unknown"] == ["how much of its quota others use: Workloads of other namespaces may not be read"]
    assert answer.json["limits"][0]["used"] == "4"
    assert "note: who holds quota in other namespaces is not known: " in answer.err


_UNREAD = {f"{KUEUE}/workloads"}
_NO_WORKLOADS = "Workloads of other namespaces may not be read"
_HOLDERS = f"who else holds what it waits for{{}}: {_NO_WORKLOADS}"
_COUNTS = f"how much of its quota others use: {_NO_WORKLOADS}"


@each(
    ("total", "pods", "spec", "answered"),
    [
        ("7", 4, {}, ("fits", [])),
        ("7", 5, {}, ("not-now", [_HOLDERS.format("")])),
        (
            "7",
            5,
            {"preemption": {"withinClusterQueue": "Any"}},
            ("not-now", [_HOLDERS.format(", and whether Kueue would preempt some of them")]),
        ),
        # A total that its own Workloads exceed lacks some: what others use is more than it says.
        ("1", 5, {}, ("unknown", [_COUNTS])),
        ("1", 6, {}, ("not-now", [_COUNTS, _HOLDERS.format("")])),
        (None, 4, {}, ("unknown", [_COUNTS])),
    ],
)
async def test_a_tenant_knows_what_others_use_by_the_status_of_the_queue(
    total: str | None, pods: int, spec: Object, answered: tuple[str, list[str]], tmp_path: Path
) -> None:
    objects = [item for item in there("8") if item["kind"] != "ClusterQueue"]
    queue = cluster_queue("cq", {"f": {"cpu": "8"}}, **spec)
    if total is not None:
        queue = reserving(queue, f={"cpu": total})
    held = [
        workload("train", "q", held={"f": {"cpu": "3"}}),
        workload("mine", "q", held={"f": {"cpu": "3"}}),
        workload("theirs", "r", held={"f": {"cpu": "1"}}, namespace="u"),
    ]
    stored = queued(pods=pods, uid="uid-train")
    async with serving(*objects, queue, stored, *held, forbidden=_UNREAD) as (_, url):
        answer = await ask(tmp_path, url, "fit", "train", "-o", "json")
    assert (answer.json["verdict"], answer.json["unknown"]) == answered, answer.json["message"]
    assert answer.json["preempts"] == []


@each(("lender", "verdict"), [("2", "fits"), ("3", "not-now"), (None, "unknown")])
async def test_a_tenant_knows_what_the_cohort_uses(lender: str | None, verdict: str, tmp_path: Path) -> None:
    objects = [item for item in there("8") if item["kind"] != "ClusterQueue"]
    own = reserving(cluster_queue("cq", {"f": {"cpu": "4"}}, cohortName="all"), f={"cpu": "0"})
    other = cluster_queue("other", {"f": {"cpu": "4"}}, cohortName="all")
    if lender is not None:
        other = reserving(other, f={"cpu": lender})
    file = write(tmp_path / "a.yaml", queued(pods=6))
    async with serving(*objects, own, other, forbidden=_UNREAD) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    assert answer.json["verdict"] == verdict, answer.json["message"]


@each(
    ("lost", "holders", "generation", "verdict"),
    [
        ({"g": {"cpu": "0"}}, 1, 2, "unknown"),
        # It never had another flavor, or holds nothing.
        ({"g": {"cpu": "0"}}, 1, 1, "fits"),
        ({"g": {"cpu": "0"}}, 0, 2, "fits"),
        # Kueue has not written the status since.
        ({"g": {"cpu": "0"}, "f": {"cpu": "2"}}, 1, 2, "fits"),
        ({"g": {"cpu": "0"}, "f": {"cpu": "3"}}, 1, 2, "not-now"),
    ],
)
async def test_a_flavor_that_a_queue_of_the_cohort_has_lost_may_be_in_use(
    lost: dict[str, dict[str, str]], holders: int, generation: int, verdict: str, tmp_path: Path
) -> None:
    objects = [item for item in there("8", flavor("g")) if item["kind"] != "ClusterQueue"]
    own = reserving(cluster_queue("cq", {"f": {"cpu": "8"}}, cohortName="all"), f={"cpu": "0"})
    other = reserving(cluster_queue("other", {"g": {"cpu": "8"}}, cohortName="all"), **lost)
    other["status"]["reservingWorkloads"] = holders
    other["metadata"]["generation"] = generation
    file = write(tmp_path / "a.yaml", queued(pods=6))
    async with serving(*objects, own, other, forbidden=_UNREAD) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
        described = await ask(tmp_path, url, "queue", "describe", "q", "-o", "json")
    assert answer.json["verdict"] == verdict, answer.json["message"]
    doubt = f'how much of flavor "f" Workloads of ClusterQueues "other" hold, which do not list it: {_NO_WORKLOADS}'
    unknown = {"fits": [], "unknown": [doubt], "not-now": [_HOLDERS.format("")]}
    assert answer.json["unknown"] == unknown[verdict]
    free = {"fits": "8 6", "unknown": "None", "not-now": "5"}
    assert str(described.json["quotas"][0]["free"]) in free[verdict].split()
    assert (FREE.format(_NO_WORKLOADS) in described.json["unknown"]) is (verdict == "unknown")


@each(("since", "verdict"), [("2026-01-01T00:59:50Z", "fits"), ("2026-01-01T00:59:59Z", "unknown")])
async def test_a_workload_that_has_quota_since_a_moment_may_not_be_in_the_status(
    since: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "server_time", lambda _: datetime.fromisoformat(LATER))
    objects = [item for item in there("8") if item["kind"] != "ClusterQueue"]
    queue = reserving(cluster_queue("cq", {"f": {"cpu": "8"}}), f={"cpu": "3"})
    mine = workload("mine", "q", held={"f": {"cpu": "3"}})
    mine["status"]["conditions"] = [condition("QuotaReserved", since=since)]
    file = write(tmp_path / "a.yaml", queued(pods=5))
    async with serving(*objects, queue, mine, forbidden=_UNREAD) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    assert (answer.json["verdict"], answer.json["unknown"]) == (verdict, [_COUNTS] * (verdict == "unknown"))


@each(
    ("doors", "verdict"),
    [
        ([local_queue("r", "cq")], "fits"),
        ([], "unknown"),
        # Made again, for another ClusterQueue.
        ([local_queue("r", "other")], "unknown"),
    ],
)
async def test_a_workload_without_its_local_queue_may_not_be_in_the_status(
    doors: list[Object], verdict: str, tmp_path: Path
) -> None:
    objects = [item for item in there("8") if item["kind"] != "ClusterQueue"]
    # Kueue writes the status where a LocalQueue leads that has one more with quota: these 4 are of others.
    queue = reserving(cluster_queue("cq", {"f": {"cpu": "8"}}), f={"cpu": "4"})
    mine = workload("mine", "r", held={"f": {"cpu": "3"}})
    file = write(tmp_path / "a.yaml", queued(pods=4))
    async with serving(*objects, *doors, queue, mine, forbidden=_UNREAD) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    async with serving(*objects, *doors, queue, mine) as (_, url):
        allowed = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    assert (answer.json["verdict"], answer.json["unknown"]) == (verdict, [_COUNTS] * (verdict == "unknown"))
    # Its admission counts for those who may list all.
    assert (allowed.json["verdict"], allowed.json["limits"][0]["used"]) == ("fits", "3")


@each(
    ("strategy", "pending", "closed", "unknown"),
    [
        ("StrictFIFO", 1, "localqueues", True),
        ("StrictFIFO", 1, "workloads", True),
        ("StrictFIFO", 0, "localqueues", False),
        ("StrictFIFO", 0, "workloads", False),
        ("BestEffortFIFO", 1, "localqueues", False),
        ("BestEffortFIFO", 1, "workloads", False),
    ],
)
async def test_a_strict_queue_may_have_a_head_that_is_not_known(
    strategy: str, pending: int, closed: str, unknown: bool, tmp_path: Path
) -> None:
    objects = there("8", queueingStrategy=strategy)
    (queue,) = (item for item in objects if item["kind"] == "ClusterQueue")
    queue["status"] = reserving(queue, f={"cpu": "0"})["status"] | {"pendingWorkloads": pending}
    file = write(tmp_path / "a.yaml", queued(pods=4))
    async with serving(*objects, forbidden={f"{KUEUE}/{closed}"}) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    assert any("Kueue tries first" in each for each in answer.json["unknown"]) is unknown
    assert answer.json["verdict"] == ("unknown" if unknown else "fits")


async def test_a_namespace_that_the_queue_does_not_select_is_blocked(tmp_path: Path) -> None:
    selector = {"matchLabels": {"team": "a"}}
    file = write(tmp_path / "a.yaml", queued())
    async with serving(*there("8", namespaceSelector=selector)) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    assert answer.json["reason"] == "QueueBlocked"
    async with serving(*there("8", namespaceSelector=selector), forbidden={"/api/v1/namespaces/t"}) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    assert answer.json["reason"] == "MayFit"


async def test_jobsets_of_several_namespaces_are_evaluated(tmp_path: Path) -> None:
    more = (local_queue("q", "small", "u"), cluster_queue("small", {"f": {"cpu": 1}}), labelled("u"))
    file = write(tmp_path / "a.yaml", queued("a"), queued("b", namespace="u"))
    async with serving(*there("8", *more)) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    assert [each["verdict"] for each in answer.json["items"]] == ["fits", "never"]


@each(
    ("closed", "starts"),
    [
        (set(), (1800, 3630)),
        ({"/apis/jobset.x-k8s.io/v1alpha2/jobsets"}, (0, 3630)),
        ({f"{KUEUE}/localqueues"}, (1800, None)),
        ({f"{KUEUE}/workloads"}, None),
    ],
)
async def test_when_it_starts_is_estimated_by_what_may_be_read(
    closed: set[str], starts: tuple[int, int | None] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By the clock of the API server; that of this machine may be another.
    monkeypatch.setattr(Client, "server_time", lambda _: datetime.fromisoformat(LATER))
    held = workload("other", "q", held={"f": {"cpu": "4"}}, maximumExecutionTimeSeconds=7200)
    declares = queued("other", annotations={EXPECTED_DURATION: "90m"}, uid="uid-other")
    # It asks for more than is free until then, in another namespace.
    waits = workload("waits", "q", condition("QuotaReserved", False, "Pending"), namespace="u", pods=8)
    waits["status"]["resourceRequests"] = [{"name": "w", "resources": {"cpu": "9"}}]
    file = write(tmp_path / "a.yaml", queued(pods=8))
    objects = there("8", held, declares, waits, local_queue("q", "cq", "u"))
    async with serving(*objects, forbidden=closed) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "-o", "json")
    found = answer.json["starts"]
    assert (found and (found["earliest"], found["latest"])) == starts


async def test_a_jobset_that_kueue_could_not_start_does_not_fit(tmp_path: Path) -> None:
    stored = queued("train", uid="uid-train", suspend=True)
    failed = workload("train", "q", condition("Finished", True, "FailedToStart", "conflict for labels"))
    again = write(tmp_path / "a.yaml", queued("train"))
    async with serving(*there("8", stored, failed)) as (_, url):
        answer = await ask(tmp_path, url, "fit", "train", "-o", "json")
        other = await ask(tmp_path, url, "fit", "-f", again, "-o", "json")
    assert (answer.json["verdict"], answer.json["reason"]) == ("not-now", "FailedToStart")
    assert other.json["verdict"] == "fits"
