"""``gangctl policy scan``."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from gangctl.client.client import Client
from tests.cli import httpserver, kueueobjects, kueueserver
from tests.cli.policy.policies import (
    FEW,
    QUEUED,
    Object,
    binding,
    config_map,
    exception,
    files,
    namespace,
    native,
    policy,
    rule,
)
from tests.cli.policy.server import ask, serving
from tests.cli.run import gangctl, process
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.rows import each

SMALL = jobset("small", rj("a", 1, 2, 2), mode="Gang")
LARGE = jobset("large", rj("a", 2, 4, 4), mode="Gang")
ELSEWHERE = jobset("elsewhere", rj("a", 3, 4, 4), mode="Gang", namespace="u")
NAMED = rule("object.metadata.name == 'small'")
PLACES = [namespace("t", team="a"), namespace("u"), namespace("kube-system")]


async def test_every_page_is_evaluated(tmp_path: Path) -> None:
    many = [jobset(f"js-{index}", rj("a", 1, 2, 2), mode="Gang") for index in range(5)]
    async with serving(policies=[policy("limits", FEW)], namespaces=PLACES, jobsets=[*many, LARGE]) as (server, url):
        answer = await ask(tmp_path, url, "scan", "-A")
    assert answer.code == 1
    assert answer.err == ""
    assert answer.out == (
        "POLICY   PASS   FAIL   ERROR   EXEMPT\n"
        "limits   5      1      0       0\n"
        "\n"
        "NAMESPACE   JOBSET   POLICY   RULE       RESULT   ACTION   MESSAGE\n"
        "t           large    limits   few-pods   fail     Deny     has 8 pods, at most 4 are allowed\n"
        "\n"
        "6 JobSets evaluated: 1 violation\n"
    )
    assert {method for method, _ in server.asked} == {"GET"}
    assert len([path for _, path in server.asked if path.endswith("/jobsets")]) == 3


async def test_exceptions_of_the_cluster_go_on_for_a_policy_of_a_file(tmp_path: Path) -> None:
    exempt = [exception("e", "limits", names=["large"])]
    path = files(tmp_path, p=[policy("limits", FEW)])["p"]
    async with serving(exceptions=exempt, namespaces=PLACES, jobsets=[LARGE]) as (_, url):
        answer = await ask(tmp_path, url, "scan", "-A", "--policy", path)
    assert answer.code == 0, answer


async def test_a_policy_can_use_fit(tmp_path: Path) -> None:
    """What a JobSet holds itself is not in its way, and nothing is asked of queues where no policy does."""
    train, large = kueueobjects.queued(pods=8, uid="uid-train"), kueueobjects.queued("large", pods=9, uid="uid-large")
    own = kueueobjects.workload("train", "q", held={"f": {"cpu": "8"}})
    objects = [item for item in kueueobjects.cluster("8") if item is not kueueobjects.CONFIGURATION]
    objects += [kueueserver.config_map(kueueobjects.CONFIGURATION), kueueserver.labelled("t"), train, large, own]
    path = files(tmp_path, policy=[policy("fits", rule("fit.verdict == 'fits'")), policy("queued", rule("true"))])
    async with kueueserver.serving(*objects) as (server, url):
        answer = await httpserver.ask(tmp_path, url, "policy", "scan", "--policy", path["policy"], "-o", "name")
        assert any("clusterqueues" in path for _, path in server.asked)
    assert (answer.code, answer.out) == (1, "jobset.jobset.x-k8s.io/large\n"), answer.err


async def test_the_configuration_is_read_where_kueue_runs(tmp_path: Path) -> None:
    configuration = {**kueueobjects.CONFIGURATION, "resources": {"excludeResourcePrefixes": ["cpu"]}}
    objects = [item for item in kueueobjects.cluster("8") if item is not kueueobjects.CONFIGURATION]
    objects += [kueueserver.config_map(configuration, "there"), kueueserver.labelled("t"), kueueobjects.queued(pods=9)]
    path = files(tmp_path, policy=[policy("fits", rule("fit.verdict == 'fits'"))])
    arguments = ("policy", "scan", "--policy", path["policy"], "--kueue-namespace")
    async with kueueserver.serving(*objects) as (_, url):
        answers = [await httpserver.ask(tmp_path, url, *arguments, place) for place in ("here", "there")]
    assert [answer.code for answer in answers] == [1, 0], answers


async def test_without_violations_the_exit_code_is_0(tmp_path: Path) -> None:
    async with serving(policies=[policy("limits", FEW)], namespaces=PLACES, jobsets=[SMALL, ELSEWHERE]) as (_, url):
        assert (await ask(tmp_path, url, "scan")).code == 0
        named = await ask(tmp_path, url, "scan", "-n", "u", "-o", "name")
    assert (named.code, named.out) == (1, "jobset.jobset.x-k8s.io/elsewhere\n")


TEAM: Final[Object] = {"namespaceSelector": {"matchLabels": {"team": "a"}}}


@each(
    ("named", "constraints", "code"),
    [(PLACES, TEAM, 1), ([], {}, 1), ([], TEAM, 3)],
)
async def test_one_namespace_is_read_by_its_name(
    named: list[Object], constraints: Object, code: int, tmp_path: Path
) -> None:
    path = files(tmp_path, p=[policy("limits", FEW, **({"matchConstraints": constraints} if constraints else {}))])
    async with serving(namespaces=None, named=named, jobsets=[LARGE]) as (_, url):
        answer = await ask(tmp_path, url, "scan", "--policy", path["p"])
    assert answer.code == code, answer.err


async def test_jobsets_are_selected_by_label(tmp_path: Path) -> None:
    labelled = jobset("labelled", rj("a", 2, 4, 4), mode="Gang")
    labelled["metadata"]["labels"] = {"team": "a"}
    async with serving(policies=[policy("limits", FEW)], namespaces=PLACES, jobsets=[LARGE, labelled]) as (_, url):
        answer = await ask(tmp_path, url, "scan", "-l", "team=a", "--no-headers")
    first, _, broken, _, summary = answer.out.splitlines()
    assert first.split() == ["limits", "0", "1", "0", "0"]
    assert broken.split()[:3] == ["t", "labelled", "limits"]
    assert summary == "1 JobSet evaluated: 1 violation"


async def test_results_with_exceptions_and_parameters_are_printed_as_json(tmp_path: Path) -> None:
    limited = policy(
        "limited",
        rule("gang.totalPods <= int(params.data.pods)"),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        paramRef={"name": "limits", "parameterNotFoundAction": "Deny"},
    )
    hidden = policy("hidden", rule("false"), background=False)
    async with serving(
        policies=[policy("limits", FEW), limited, hidden, policy("broken", rule("nothing"))],
        exceptions=[exception("e", "limits", names=["large"])],
        namespaces=PLACES,
        jobsets=[LARGE],
        config_maps=[config_map("limits", "t", pods="9"), config_map("limits", "u", pods="1")],
    ) as (_, url):
        answer = await ask(tmp_path, url, "scan", "-A", "-o", "json")
    assert answer.code == 0, answer.err
    assert answer.json["violations"] == []
    assert [(each["policy"], each["pass"], each["exempt"]) for each in answer.json["policies"]] == [
        ("limited", 1, 0),
        ("limits", 0, 1),
    ]
    assert answer.err.splitlines()[0].startswith("note: left out: gangpolicy/broken: spec.validations[0].expression: ")
    assert answer.err.splitlines()[1:] == ["note: left out: hidden: spec.background is false"]


async def test_exceptions_end_by_the_clock_of_the_api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is years ahead of this machine's."""
    monkeypatch.setattr(Client, "server_time", lambda _: datetime(3000, 1, 1, tzinfo=UTC))
    path = files(tmp_path, p=[policy("limits", FEW), exception("e", "limits", namespaces=["t"])])
    async with serving(namespaces=PLACES, jobsets=[LARGE]) as (_, url):
        answer = await ask(tmp_path, url, "scan", "-n", "t", "--policy", path["p"], "-o", "name")
    assert (answer.code, answer.out) == (1, "jobset.jobset.x-k8s.io/large\n"), answer.err


async def test_a_parameter_in_a_file_does_not_hide_those_of_the_cluster(tmp_path: Path) -> None:
    limited = [
        policy(
            name,
            rule("gang.totalPods <= int(params.data.pods)"),
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            paramRef={"name": name, "namespace": "t", "parameterNotFoundAction": "Allow"},
        )
        for name in ("a", "b")
    ]
    paths = files(tmp_path, new=[*limited, config_map("a", "t", pods="9")])
    stored = [config_map(name, "t", pods="1") for name in ("a", "b")]
    async with serving(namespaces=PLACES, jobsets=[LARGE], config_maps=stored) as (_, url):
        answer = await ask(tmp_path, url, "scan", "-A", "--policy", paths["new"], "-o", "json")
    assert [violation["policy"] for violation in answer.json["violations"]] == ["b"]


async def test_policies_of_files_before_they_are_applied(tmp_path: Path) -> None:
    paths = files(tmp_path, new=[policy("q", QUEUED, matchConstraints=TEAM), native("n", NAMED), binding("b", "n")])
    async with serving(namespaces=PLACES, jobsets=[SMALL, ELSEWHERE]) as (_, url):
        answer = await ask(tmp_path, url, "scan", "-A", "--policy", paths["new"], "-o", "json")
    assert answer.code == 1
    assert [(each["name"], each["policy"]) for each in answer.json["violations"]] == [
        ("small", "q"),
        ("elsewhere", "n/b"),
    ]


async def test_skipped_and_terminating_jobsets_are_not_scanned(tmp_path: Path) -> None:
    skipped = namespace("u")
    skipped["metadata"]["labels"] = {"gangctl.dev/skip": "true"}
    system = jobset("system", rj("a", 9, 9, 9), namespace="kube-system")
    going = jobset("going", rj("a", 9, 9, 9))
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    async with serving(
        policies=[policy("limits", FEW)],
        namespaces=[namespace("t"), skipped],
        jobsets=[ELSEWHERE, system, going, SMALL],
    ) as (_, url):
        answer = await ask(tmp_path, url, "scan", "-A")
    assert answer.code == 0
    assert answer.out.endswith("\n1 JobSet evaluated, 2 left alone: 0 violations\n")


@each(
    ("collections", "code", "words"),
    [
        ({"jobsets": []}, 3, "the cluster does not have gangpolicies.gangctl.dev"),
        ({"policies": [], "jobsets": []}, 2, "there is no GangPolicy in the cluster"),
        ({"policies": [policy("limits", FEW)]}, 3, "the cluster does not serve JobSets"),
    ],
)
async def test_a_cluster_without_policies_or_jobsets_is_an_error(
    tmp_path: Path, collections: dict[str, list[Object]], code: int, words: str
) -> None:
    async with serving(2, namespaces=PLACES, **collections) as (_, url):
        answer = await ask(tmp_path, url, "scan", "-A")
    assert (answer.code, answer.out) == (code, "")
    assert words in answer.err


@each(
    ("flags", "words"),
    [(("-A", "-n", "x"), "exclude each other"), (("-n", "a/b"), "is not the name of a namespace")],
)
def test_bad_usage_is_exit_code_2(flags: tuple[str, ...], words: str) -> None:
    answer = gangctl("policy", "scan", *flags)
    assert answer.code == 2
    assert words in answer.err


@pytest.mark.controlplane
async def test_a_real_cluster_is_scanned(cluster: Cluster, tmp_path: Path) -> None:
    for raw in (SMALL, LARGE, jobset("other", rj("a", 1, 1, 1), suspend=True)):
        await cluster.create_jobset(raw)
    paths = files(tmp_path, new=[policy("limits", FEW), policy("stored", rule("has(object.spec.successPolicy)"))])
    config = str(cluster.plane.kubeconfig)
    arguments = ("scan", "-n", cluster.namespace, "--policy", paths["new"], "-o", "json")
    answer = await asyncio.to_thread(process, "policy", *arguments, "--kubeconfig", config)
    assert answer.code == 1, answer.err
    assert (answer.json["jobsets"], answer.json["leftAlone"]) == (3, 0)
    assert [(each["name"], each["rule"]) for each in answer.json["violations"]] == [("large", "few-pods")]
