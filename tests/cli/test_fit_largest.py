"""``gangctl fit --largest``: the numbers are those at which ``gangctl fit`` changes its verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.meta import GANGS
from gangctl.cli.fitting import FitSubject, answer_of
from gangctl.cli.largest import largest_of
from gangctl.cluster.stock import Stock
from gangctl.fit.report import Verdict
from tests.cli.conftest import Golden
from tests.cli.httpserver import ask
from tests.cli.kueueobjects import CONFIGURATION, Object, cluster, queued, workload
from tests.cli.kueueserver import config_map, labelled, serving
from tests.cli.manifests import write
from tests.cli.publishedschemas import schema_of
from tests.cli.run import Answer, gangctl
from tests.cli.schema import violations
from tests.cli.test_fit_nodes import node, pod
from tests.cli.topologyobjects import IDLE, TWO_RACKS, asking, racks
from tests.fit.asking import NAMESPACE, pods
from tests.fit.test_filters import apart, term
from tests.jobsets import OPTIONS, jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY

SCHEMA = Path(__file__).parents[2] / "docs" / "fit-largest.schema.json"
RACK = "example.com/rack"
TOPOLOGY = json.dumps({"topologyKey": RACK})
NODES = [node("a", **{RACK: "1"}), node("b", **{RACK: "1"}), node("c", **{RACK: "2"})]


def fit(directory: Path, asked: Object, objects: list[Object], *arguments: str) -> Answer:
    files = write(directory / "jobsets.yaml", asked), write(directory / "queues.yaml", *objects)
    return gangctl("fit", "-f", files[0], "--queues", files[1], *arguments)


def largest(directory: Path, asked: Object, objects: list[Object]) -> list[Any]:
    answer = fit(directory, asked, objects, "--largest", "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    assert violations(answer.json, schema_of("fit-largest")) == []
    return list(answer.json["podSets"])


def rooms(podset: Any) -> dict[str, tuple[str, int, int]]:
    return {room["scope"]: (room["name"], room["pods"], room["possible"]) for room in podset["rooms"]}


def test_schema_is_published(golden: Golden) -> None:
    golden(SCHEMA, json.dumps(schema_of("fit-largest"), indent=2) + "\n")


def test_each_place_has_its_number(tmp_path: Path) -> None:
    raw = jobset("js", rj("w", 2, 3, 3, cpu="1500m"), rj("d", 1, 1, 1, cpu="4"), mode="Gang", options=TOPOLOGY)
    workers, driver = largest(tmp_path, raw, [*NODES, pod("x", "a", "2")])
    assert rooms(workers) == {
        "node": ("b", 2, 2),
        "domain": ("1", 3, 3),
        "cluster": ("", 5, 5),
        "gang": ("", 3, 3),
    }
    assert rooms(driver) == {"node": ("b", 1, 1), "domain": ("1", 1, 1), "cluster": ("", 2, 2), "gang": ("", 1, 1)}
    assert workers["requests"] == {"cpu": "1500m"}


@each(
    ("empty", "gangs"),
    [
        ({"replicas": 0}, None),
        ({"parallelism": 0}, None),
        ({"replicas": 0}, [{"name": "g", "replicatedJobs": ["w"], "topologyKey": RACK, "minCount": 2}]),
        ({"replicas": 0}, [{"name": "g", "replicatedJobs": ["w"], "perReplica": True, "topologyKey": RACK}]),
    ],
)
def test_a_replicated_job_without_pods_has_its_topology(
    empty: dict[str, int], gangs: list[Object] | None, tmp_path: Path
) -> None:
    """As of a JobSet that is scaled to zero."""
    entry = rj(
        "w", empty.get("replicas", 1), empty.get("parallelism", 3), 3, cpu="1500m", mode=None if gangs else "Gang"
    )
    notes = {GANGS: json.dumps(gangs)} if gangs else {OPTIONS: TOPOLOGY}
    raw = jobset("js", entry, rj("d", 1, 1, 1, cpu="4"), annotations=notes)
    workers, _ = largest(tmp_path, raw, [*NODES, pod("x", "a", "2")])
    assert (rooms(workers)["domain"], rooms(workers)["gang"]) == (("1", 3, 3), ("", 3, 3))


@each(
    ("quota", "used", "expected", "limit"),
    [("6", "0", 6, "quota"), ("6", "2", 4, "quota"), ("99", "0", 12, "nodes"), ("0", "0", 0, "quota")],
)
def test_quota_and_nodes_bound_a_flavor(quota: str, used: str, expected: int, limit: str, tmp_path: Path) -> None:
    objects = [*cluster(quota, workload("other", "q", held={"f": {"cpu": used}})), *NODES, pod("x", "a", "0")]
    (podset,) = largest(tmp_path, queued(pods=50), objects)
    flavor = next(room for room in podset["rooms"] if room["scope"] == "flavor")
    assert (flavor["name"], flavor["pods"], flavor["limit"]) == ("f", expected, limit)
    assert rooms(podset)["gang"] == ("", expected, expected)


def test_without_nodes_quota_alone_is_asked_and_the_rest_is_unknown(tmp_path: Path) -> None:
    (podset,) = largest(tmp_path, queued(), cluster("6"))
    assert rooms(podset) == {"flavor": ("f", 6, 6), "gang": ("", 6, 6)}
    assert podset["unknown"] == ["what the nodes have room for"]


@each(("cpu", "size", "expected"), [("99", 2, 4), ("3", 2, 2), ("99", 1, 4), ("99", 3, 0)])
def test_slices_of_kueue_are_counted_whole(cpu: str, size: int, expected: int, tmp_path: Path) -> None:
    raw = asking(4, **{"slice-required-topology": RACK, "slice-size": str(size)})
    (podset,) = largest(tmp_path, raw, [*racks(*TWO_RACKS, IDLE, cpu=cpu)])
    room = podset["rooms"][-1]
    assert (room["scope"], room["pods"], room["possible"]) == ("gang", expected, expected)
    assert room["limit"].startswith(f"{expected + size} would not: ")


def test_jobs_that_have_succeeded_leave_the_numbers_as_they_are(tmp_path: Path) -> None:
    raw = jobset("js", rj("w", 2, 3, 3, cpu="1"), uid="u")
    raw["metadata"]["labels"] = queued()["metadata"]["labels"]
    raw["status"] = {
        "replicatedJobsStatus": [
            {"name": "w", **dict.fromkeys(("active", "failed", "ready", "suspended"), 0), "succeeded": 1}
        ]
    }
    (podset,) = largest(tmp_path, raw, cluster("6"))
    assert rooms(podset)["gang"] == ("", 6, 6)


def test_a_node_that_may_become_ready_makes_two_numbers(tmp_path: Path) -> None:
    unready = node("d", **{RACK: "2"})
    unready["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    (podset,) = largest(tmp_path, queued(queue="", pods=1), [*NODES, unready, pod("x", "a", "0")])
    assert rooms(podset) == {"node": ("a", 4, 4), "cluster": ("", 12, 16), "gang": ("", 12, 16)}


def test_the_text_names_places_and_what_is_short(tmp_path: Path, golden: Golden) -> None:
    objects = [*cluster("6"), *NODES, pod("x", "a", "1")]
    answer = fit(tmp_path, queued(pods=50), objects, "--largest")
    golden(Path(__file__).parent / "golden" / "fit-largest.txt", answer.out)


@each(
    ("arguments", "words"),
    [
        (("--now",), "--largest excludes --now, --fixed-nodes and --worker"),
        (("--fixed-nodes",), "--largest excludes --now, --fixed-nodes and --worker"),
    ],
)
def test_flags_about_a_verdict_exclude_it(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    answer = fit(tmp_path, queued(), NODES, "--largest", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err


def test_files_without_queues_and_nodes_are_an_error(tmp_path: Path) -> None:
    answer = fit(tmp_path, queued(), [CONFIGURATION], "--largest")
    assert (answer.code, answer.out) == (2, "")
    assert "have neither Node nor ClusterQueue" in answer.err


async def test_a_cluster_gives_the_same_numbers(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", queued(pods=50))
    objects = [one for one in cluster("6") if one is not CONFIGURATION]
    there = [*objects, config_map(CONFIGURATION), labelled("t"), *NODES, pod("p", "a", "1")]
    async with serving(*there) as (server, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "--largest", "-o", "json")
    assert (answer.code, rooms(answer.json["podSets"][0])["gang"]) == (0, ("", 6, 6))
    assert rooms(answer.json["podSets"][0])["cluster"] == ("", 11, 11)
    assert {method for method, _ in server.asked} == {"GET"}
    async with serving(*NODES, kueue=False) as (_, url):
        answer = await ask(tmp_path, url, "fit", "-f", file, "--largest", "-o", "json")
    assert rooms(answer.json["podSets"][0])["gang"][1] == 12


_nodes = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 4), st.sampled_from(["1", "2"]), st.booleans()), min_size=1, max_size=4
)


@given(_nodes, st.integers(1, 3), st.booleans(), st.booleans())
@PROPERTY
def test_fit_agrees_with_the_largest_number(
    nodes: list[tuple[int, int, str, bool]], cpu: int, topology: bool, spread: bool
) -> None:
    stock = Stock()
    stock.note_presence(False)
    stock.pods = []
    for number, (capacity, used, rack, ready) in enumerate(nodes):
        raw = node(f"n{number}", str(capacity), **{RACK: rack})
        raw["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
        stock.take_raw(raw)
        stock.take_raw(pod(f"p{number}", f"n{number}", str(used)))
    spec = apart(term("w", RACK)) if spread else {}

    def asked(count: int) -> dict[str, Any]:
        entry = pods("w", count, spec, cpu=str(cpu))
        entry["template"]["spec"]["template"]["metadata"] = {"labels": {"app": "w"}}
        return jobset("js", entry, mode="Gang", options=TOPOLOGY if topology else None)

    def verdict(count: int) -> Verdict:
        subject = FitSubject(asked(count), "js", NAMESPACE, "")
        return answer_of(subject, stock, fixed_nodes=True).report["verdict"]

    (podset,) = largest_of(FitSubject(asked(1), "js", NAMESPACE, ""), stock)["podSets"]
    found = {room["scope"]: room for room in podset["rooms"]}
    gang, cluster_ = found["gang"], found["cluster"]
    assert all(verdict(count) == "fits" for count in range(1, gang["pods"] + 1))
    assert verdict(gang["pods"] + 1) != "fits"
    assert all(verdict(count) in {"not-now", "never"} for count in (gang["possible"] + 1, gang["possible"] + 2))
    if not topology:
        assert (cluster_["pods"], cluster_["possible"]) == (gang["pods"], gang["possible"])
    else:
        assert (found["domain"]["pods"], found["domain"]["possible"]) >= (gang["pods"], gang["pods"])
