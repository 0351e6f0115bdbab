"""``gangctl fit --worker``: a cluster that dispatches, and two worker clusters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.cli import run
from tests.cli.kueueobjects import CONFIGURATION, Object, cluster, condition, kueue, queued, workload
from tests.cli.kueueserver import config_map, labelled, serving
from tests.cli.manifests import write
from tests.cli.run import Answer
from tests.rows import each

Ask = Callable[..., Any]
MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
ORIGIN: Final = "kueue.x-k8s.io/multikueue-origin"
BOTH: Final = ("--worker", "west=context-west", "--worker", "east")
CONFIGS: Final = "/apis/kueue.x-k8s.io/v1beta2/multikueueconfigs/workers"
CHECKED: Final = {"admissionChecksStrategy": {"admissionChecks": [{"name": "dispatch"}]}}


def with_queue(cpu: str, *more: Object, **spec: Any) -> list[Object]:
    objects = [each_ for each_ in cluster(cpu, **spec) if each_ is not CONFIGURATION]
    return [*objects, config_map(CONFIGURATION), labelled("t"), *more]


def dispatching(cpu: str = "100", *more: Object) -> list[Object]:
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "workers"}
    check = kueue("AdmissionCheck", "dispatch", spec={"controllerName": MULTIKUEUE, "parameters": parameters})
    check["status"] = {"conditions": [condition("Active")]}
    config = kueue("MultiKueueConfig", "workers", spec={"clusters": ["west", "east"]})
    return with_queue(cpu, check, config, *more, **CHECKED)


@asynccontextmanager
async def clusters(
    directory: Path,
    manager: Sequence[Object],
    west: Sequence[Object] | None,
    east: Sequence[Object] | None,
    forbidden: Sequence[str] = (),
) -> AsyncIterator[Ask]:
    """Yields how to ask them; None is a cluster that does not answer."""
    contexts: list[Object] = []
    servers: list[Object] = []
    async with AsyncExitStack() as stack:
        for name, objects in (("manager", manager), ("context-west", west), ("east", east)):
            url = "http://127.0.0.1:1"
            if objects is not None:
                closed = forbidden if name == "manager" else ()
                _, url = await stack.enter_async_context(serving(*objects, forbidden=closed))
            contexts.append({"name": name, "context": {"cluster": name, "user": "u", "namespace": "t"}})
            servers.append({"name": name, "cluster": {"server": url}})
        whole: Object = {"apiVersion": "v1", "kind": "Config", "current-context": "manager"}
        whole |= {"clusters": servers, "users": [{"name": "u", "user": {}}], "contexts": contexts}
        path = write(directory / "kubeconfig", whole)

        async def ask(*arguments: str) -> Answer:
            return await run.ask("fit", *arguments, "--kubeconfig", path)

        yield ask


def gang(directory: Path, pods: int) -> str:
    return write(directory / "gang.yaml", queued(pods=pods))


@each(
    ("pods", "verdict", "workers", "code"),
    [
        (4, "fits", ["fits", "fits"], 0),
        (6, "fits", ["never", "fits"], 0),
        (10, "never", ["never", "never"], 1),
        (200, "never", ["never", "never"], 1),
    ],
)
async def test_each_worker_cluster_has_its_verdict(
    pods: int, verdict: str, workers: list[str], code: int, tmp_path: Path
) -> None:
    async with clusters(tmp_path, dispatching(), with_queue("4"), with_queue("8")) as ask:
        answer = await ask("-f", gang(tmp_path, pods), *BOTH, "-o", "json")
    assert (answer.code, answer.err, answer.json["verdict"]) == (code, "", verdict)
    assert [(each_["name"], each_["verdict"]) for each_ in answer.json["workers"]] == [
        ("west", workers[0]),
        ("east", workers[1]),
    ]


async def test_the_table_has_a_row_for_each_worker_cluster(tmp_path: Path) -> None:
    others = workload("other", "q", held={"f": {"cpu": "2"}})
    async with clusters(tmp_path, dispatching(), with_queue("4", others), with_queue("2")) as ask:
        answer = await ask("-f", gang(tmp_path, 4), *BOTH)
        now = await ask("-f", gang(tmp_path, 4), *BOTH, "--now")
    assert (answer.code, now.code) == (0, 1)
    lines = answer.out.splitlines()
    assert lines[0] == "JobSet t/train: does not fit now (WaitsForQuota)"
    assert "It fits on no worker cluster now" in lines[1]
    table = lines[lines.index("Worker clusters") + 1 :]
    assert table[0].split() == ["CLUSTER", "VERDICT", "REASON", "MESSAGE"]
    assert table[1].strip().startswith("west      does not fit now   WaitsForQuota")
    assert table[2].strip().startswith("east      never fits")


async def test_a_worker_cluster_that_was_not_asked_makes_never_unknown(tmp_path: Path) -> None:
    async with clusters(tmp_path, dispatching(), with_queue("4"), None) as ask:
        one = await ask("-f", gang(tmp_path, 6), *BOTH[:2], "-o", "json")
        lost = await ask("-f", gang(tmp_path, 6), *BOTH, "-o", "json")
        none = await ask("-f", gang(tmp_path, 6), "-o", "json")
    assert (one.code, one.json["verdict"]) == (0, "unknown")
    assert one.json["workers"][1]["message"] == "Not known: it was not asked; --worker east=CONTEXT does."
    assert one.json["unknown"] == ["what worker cluster east has"]
    assert (lost.json["verdict"], lost.json["workers"][1]["verdict"]) == ("unknown", "unknown")
    assert "Cannot connect" in lost.json["workers"][1]["message"]
    assert (none.json["verdict"], none.json["workers"]) == ("fits", [])
    assert "MultiKueue" in none.json["message"]


async def test_a_dispatched_jobset_does_not_count_against_itself(tmp_path: Path) -> None:
    """On its worker cluster it is a copy with another UID, or a Workload without an owner before there is one."""
    stored = queued(pods=4, uid="uid-train", managedBy=MULTIKUEUE)
    own = workload("train", "q", pods=4, held={"f": {"cpu": "4"}})
    copy = queued(pods=4, uid="uid-copy")
    copy["metadata"]["labels"][ORIGIN] = "multikueue"
    of_copy = workload("train", "q", pods=4, held={"f": {"cpu": "4"}})
    of_copy["metadata"]["ownerReferences"][0]["uid"] = "uid-copy"
    before = workload("train", "q", pods=4, held={"f": {"cpu": "4"}})
    del before["metadata"]["ownerReferences"]
    manager = dispatching("4", stored, own)
    async with clusters(tmp_path, manager, with_queue("4", copy, of_copy), with_queue("4", before)) as ask:
        answer = await ask("train", *BOTH, "-o", "json")
    assert [each_["verdict"] for each_ in answer.json["workers"]] == ["fits", "fits"]
    assert answer.json["verdict"] == "fits"


async def test_a_jobset_of_the_name_that_multikueue_did_not_make_counts(tmp_path: Path) -> None:
    other = queued(pods=4, uid="uid-train-there")
    held = workload("train", "q", pods=4, held={"f": {"cpu": "4"}})
    held["metadata"]["ownerReferences"][0] |= {"uid": "uid-train-there"}
    stored = queued(pods=4, uid="uid-train", managedBy=MULTIKUEUE)
    async with clusters(tmp_path, dispatching("9", stored), with_queue("4", other, held), with_queue("4")) as ask:
        answer = await ask("train", *BOTH, "-o", "json")
    assert [each_["verdict"] for each_ in answer.json["workers"]] == ["not-now", "fits"]


async def test_names_that_multikueue_does_not_have_are_refused(tmp_path: Path) -> None:
    async with clusters(tmp_path, dispatching(), with_queue("4"), with_queue("4")) as ask:
        answer = await ask("-f", gang(tmp_path, 4), "--worker", "wset=east")
    assert (answer.code, answer.out) == (2, "")
    assert '"wset"' in answer.err
    assert "hint: MultiKueue has east, west" in answer.err
    async with clusters(tmp_path, with_queue("4"), None, None) as ask:
        answer = await ask("-f", gang(tmp_path, 4), "--worker", "east")
    assert (answer.code, answer.out) == (2, "")
    assert "no AdmissionCheck of this cluster is MultiKueue's" in answer.err


async def test_without_the_right_to_read_checks_no_worker_cluster_is_known(tmp_path: Path) -> None:
    closed = CONFIGS.replace("multikueueconfigs/workers", "admissionchecks")
    async with clusters(tmp_path, dispatching(), with_queue("4"), with_queue("4"), forbidden=[closed]) as ask:
        answer = await ask("-f", gang(tmp_path, 4), *BOTH)
    assert (answer.code, answer.out) == (2, "")
    assert "admissionchecks may not be read, and they name the worker clusters" in answer.err


async def test_with_an_unreadable_configuration_there_may_be_other_worker_clusters(tmp_path: Path) -> None:
    async with clusters(tmp_path, dispatching(), with_queue("2"), with_queue("4"), forbidden=[CONFIGS]) as ask:
        fits = await ask("-f", gang(tmp_path, 4), *BOTH, "-o", "json")
        never = await ask("-f", gang(tmp_path, 9), *BOTH, "-o", "json")
    assert fits.json["verdict"] == "fits"
    assert (never.json["verdict"], never.json["workers"][2]["name"]) == ("unknown", "(others)")


async def test_a_queue_that_dispatches_to_none_is_noted(tmp_path: Path) -> None:
    local = kueue("LocalQueue", "here", namespace="t", spec={"clusterQueue": "plain"})
    plain = next(each_ for each_ in cluster("4") if each_["kind"] == "ClusterQueue")
    plain["metadata"]["name"] = "plain"
    async with clusters(tmp_path, dispatching("9", local, plain), None, None) as ask:
        answer = await ask("-f", gang(tmp_path, 5), "--queue", "here", *BOTH, "-o", "json")
    assert (answer.json["verdict"], answer.json["workers"]) == ("never", [])
    assert answer.err == "note: t/train: its queue dispatches to no worker cluster\n"
