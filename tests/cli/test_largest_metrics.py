"""``gangctl fit --largest --serve``: the numbers of ``--largest`` as metrics, as long as they are known."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gangctl.cli.fitting import FitSubject
from gangctl.cli.largest import largest_of
from gangctl.cli.largestmetrics import FAMILIES, MOST_SHAPES, PODS, Largest, beside, keep_reading
from gangctl.cluster.stock import Stock
from gangctl.errors import ClusterUnavailableError
from gangctl.fit.largest import LargestReport
from tests.cli.httpserver import ask, kubeconfig
from tests.cli.kueueobjects import CONFIGURATION, cluster, queued
from tests.cli.kueueserver import config_map, labelled, serving
from tests.cli.manifests import write
from tests.cli.test_fit_largest import NODES, RACK
from tests.cli.test_fit_nodes import pod
from tests.controlplane.wait import HUNG_SECONDS
from tests.docpages import ROOT
from tests.jobsets import jobset, rj
from tests.rows import each

PAGE = (ROOT / "docs" / "fit-largest.md").read_text(encoding="utf-8")


@asynccontextmanager
async def exporter(directory: Path, url: str, *arguments: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """A process that serves, and its address."""
    program = (sys.executable, "-m", "gangctl", "fit", "--largest", "--serve", "127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(
        *program, "--kubeconfig", kubeconfig(directory, url), *arguments, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        line = (await process.stderr.readline()).decode()
        address = re.search(r"http://\S+/", line)
        assert address is not None, line + (await process.stderr.read()).decode()
        yield address[0], process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_the_numbers_of_the_command_are_served(tmp_path: Path) -> None:
    file = write(tmp_path / "shapes.yaml", queued(pods=50))
    objects = [one for one in cluster("6") if one is not CONFIGURATION]
    there = [*objects, config_map(CONFIGURATION), labelled("t"), *NODES, pod("p", "a", "1")]
    async with serving(*there) as (_, url), exporter(tmp_path, url, "-f", file) as (address, process):
        asked = await ask(tmp_path, url, "fit", "-f", file, "--largest", "-o", "json")
        async with aiohttp.ClientSession(trust_env=False) as session:
            assert (await session.get(f"{address}readyz")).status == 200
            text = await (await session.get(f"{address}metrics")).text()
        process.terminate()
        assert await process.wait() == 0
    (podset,) = asked.json["podSets"]
    expected = {(room["scope"], room["level"], room["pods"]) for room in podset["rooms"]}
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = families[PODS.name].samples
    assert {(one.labels["scope"], one.labels["level"], int(one.value)) for one in samples} == expected
    assert {one.labels["jobset"] for one in samples} == {"train"}
    assert families["gangctl_largest_gang_read_timestamp_seconds"].samples


def role() -> set[tuple[str, str, str]]:
    """Verb, group and resource that the page grants."""
    block = PAGE.split("```yaml\n")[1].split("```")[0]
    rules = yaml.safe_load(block)["rules"]
    return {
        (verb, *of) for rule in rules for verb in rule["verbs"] for of in product(rule["apiGroups"], rule["resources"])
    }


async def test_the_role_of_the_page_is_what_it_reads(tmp_path: Path) -> None:
    pod: dict[str, Any] = {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    file = write(tmp_path / "shapes.yaml", jobset("js", rj("w", 1, 1, 1, pod=pod), mode="Gang", namespace="t"))
    there = [*[one for one in cluster("6") if one is not CONFIGURATION], labelled("t"), *NODES]
    async with serving(*there) as (server, url):
        await ask(tmp_path, url, "fit", "-f", file, "--largest")
    asked = {read for _, path in server.asked if (read := right_of(path)) is not None}
    assert asked == role()


def right_of(path: str) -> tuple[str, str, str] | None:
    """Verb, group and resource of a GET; None for what every user may read."""
    steps = path.split("/")[1:]
    group, rest = ("", steps[2:]) if steps[0] == "api" else (steps[1], steps[3:])
    if steps[0] not in {"api", "apis"} or not rest:
        return None
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    return ("get" if len(rest) > 1 else "list"), group, rest[0]


def report() -> LargestReport:
    stock = Stock()
    stock.note_presence(False)
    for raw in NODES:
        stock.take_raw(raw)
    stock.nodes_known, stock.pods = True, []
    options = f'{{"topologyKey": "{RACK}"}}'
    raw = jobset("js", rj("w", 1, 3, 3, cpu="1"), mode="Gang", options=options)
    return largest_of(FitSubject(raw, "js", "team", ""), stock)


def names(largest: Largest) -> set[str]:
    """Families that have samples."""
    return {sample.name for family in largest.collect() for sample in family.samples}


async def test_after_an_error_the_numbers_are_not_known_until_they_are_read_again() -> None:
    largest = Largest()
    assert names(largest) == {"gangctl_largest_gang_read_errors_total"}
    assert largest.problem() is not None
    largest.know([report()], 1.0)
    answers: Iterator[bool] = iter([False, True])
    seen: list[tuple[bool, bool]] = []

    async def read() -> list[LargestReport]:
        if not next(answers):
            raise ClusterUnavailableError("no answer")
        return [report()]

    async def pause() -> None:
        seen.append((PODS.name in names(largest), largest.problem() is None))
        if len(seen) == 3:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await keep_reading(largest, read, pause)
    assert seen == [(True, True), (False, False), (True, True)]
    errors = [sample for family in largest.collect() for sample in family.samples if "errors" in sample.name]
    assert [one.value for one in errors] == [1]


def test_a_cancelled_read_ends_before_its_computation() -> None:
    """A signal cancels it, and a pod has 30 seconds: a computation may take minutes."""
    begun, release = threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return release.wait()

    async def cancelled() -> None:
        task = asyncio.ensure_future(beside(work))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    thread = threading.Thread(target=lambda: asyncio.run(cancelled()))
    thread.start()
    thread.join(HUNG_SECONDS)
    try:
        assert not thread.is_alive()
    finally:
        release.set()


async def test_the_result_and_the_error_of_a_computation_are_those_of_its_caller() -> None:
    assert await beside(lambda: int("1")) == 1
    with pytest.raises(ValueError, match="no number"):
        await beside(lambda: int("no number"))


def test_no_two_series_have_the_same_labels() -> None:
    largest = Largest()
    largest.know([report()], 1.0)
    labels = [tuple(sample.labels.items()) for family in largest.collect() for sample in family.samples]
    by_family = [(family.name, tuple(one.labels.items())) for family in largest.collect() for one in family.samples]
    assert len(by_family) == len({*by_family}) == len(labels)
    assert {family.name for family in largest.collect()} == {family.stem for family in FAMILIES}


@each(
    ("objects", "words"),
    [
        ([queued(pods=1)] * 2, "JobSet t/train is in the files more than once"),
        (
            [jobset("js", *(rj(f"w{number}", 1, 1, 1) for number in range(MOST_SHAPES + 1)))],
            f"have {MOST_SHAPES + 1} replicated jobs; at most {MOST_SHAPES} have metrics",
        ),
    ],
)
async def test_shapes_are_bounded(objects: list[dict[str, object]], words: str, tmp_path: Path) -> None:
    file = write(tmp_path / "shapes.yaml", *objects)
    async with serving(*NODES, kueue=False) as (_, url):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gangctl", "fit", "-f", file, "--largest", "--serve", "127.0.0.1:0"),
            *("--kubeconfig", kubeconfig(tmp_path, url)),
            stderr=asyncio.subprocess.PIPE,
        )
        _, err = await process.communicate()
    assert process.returncode == 2
    assert words in err.decode()


@each(
    ("arguments", "words"),
    [
        (("--serve", ":0"), "--serve needs --largest"),
        (("--largest", "--period", "5"), "--period needs --serve"),
        (("--largest", "--serve", ":0", "-o", "json"), "--output prints an answer"),
        (("--largest", "--serve", ":0", "--period", "nan"), "--period': nan is no number of seconds"),
        (("--largest", "--serve", ":0", "--period", "inf"), "--period': inf is no number of seconds"),
        (("--largest", "--serve", "80"), '"80" must look like HOST:PORT'),
        (("--largest", "--serve", ":0", "--queues", "x"), "--queues stands in for a cluster"),
    ],
)
async def test_what_it_excludes_is_an_error(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", queued())
    answer = await ask(tmp_path, "http://127.0.0.1:9", "fit", "-f", file, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err


def test_the_page_has_each_family() -> None:
    for family in FAMILIES:
        assert f"| `{family.name}` | {family.type} | {family.help} |" in PAGE
