"""Any dump gives an answer or an error, and never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.gangs import dump
from tests.cli.gangs.dump import NAMESPACE, WAITS, Object, ask_about
from tests.cli.manifests import write
from tests.cli.run import gangctl
from tests.rows import each

ODD: list[Any] = [None, "", "x", 0, -1, 2**63, True, [], [None], {}, {"a": None}, "2026-13-99T99:99:99Z", "\x1b[2J"]
EVERYTHING = dump.objects()


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield value, key
            yield from places(each)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield value, index
            yield from places(each)


COUNT = sum(1 for _ in places(EVERYTHING))


def broken(spots: list[tuple[int, int]]) -> list[Any]:
    """The dump with odd values in some places."""
    found: list[Any] = dump.objects()
    known = list(places(found))
    for place, odd in spots:
        container, key = known[place]
        container[key] = ODD[odd]
    return found


@each(
    ("kind", "path"),
    [
        ("Service", ["kind"]),
        ("Job", ["spec", "template"]),
        ("Job", ["spec", "template", "spec"]),
        ("Pod", ["status", "phase"]),
        ("PodGroup", ["status", "conditions", 0, "type"]),
    ],
)
@each("odd", [["x"], {"a": "b"}, 5])
def test_fields_of_the_wrong_type_are_one_error(kind: str, path: list[Any], odd: Any, tmp_path: Path) -> None:
    service: Object = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    found = [*dump.objects(), service]
    for item in found:
        if item["kind"] == kind:
            value: Any = item
            for step in path[:-1]:
                value = value[step]
            value[path[-1]] = odd
            break
    answer = ask_about(tmp_path, found, "get")
    assert answer.code in {0, 2}, answer.err


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    spots=st.lists(st.tuples(st.integers(0, COUNT - 1), st.integers(0, len(ODD) - 1)), min_size=1, max_size=4),
    verb=st.sampled_from(["get", "describe", "why", "top"]),
)
def test_hostile_values_give_an_answer_or_an_error(spots: list[tuple[int, int]], verb: str, tmp_path: Path) -> None:
    found = [each for each in broken(spots) if isinstance(each, dict)]
    names = [WAITS] if verb in {"describe", "why"} else []
    answer = ask_about(tmp_path, found, verb, *names)
    assert answer.code in {0, 1, 2}, answer.err
    assert "\x1b" not in answer.out + answer.err
    assert answer.out or answer.err


@each("kind", ["JobSet", "Pod", "PodGroup", "Node"])
@each("odd", ["x;reboot", "$(reboot)", "x --server=https://example.com", "a`b`", "X", "-x"])
def test_invalid_names_are_refused(kind: str, odd: str, tmp_path: Path) -> None:
    found = dump.objects()
    next(each for each in found if each["kind"] == kind)["metadata"]["name"] = odd
    answer = ask_about(tmp_path, found, "get")
    assert answer.code == 2
    assert f'metadata.name: "{odd}" is no name' in answer.err


def test_an_event_may_have_any_name(tmp_path: Path) -> None:
    """The API server checks no names of events that are written through v1."""
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "System:Node.17", "namespace": NAMESPACE}}
    answer = ask_about(tmp_path, [*dump.objects(), event], "get")
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize("verb", ["describe", "why"])
def test_control_characters_in_messages_are_escaped(verb: str, tmp_path: Path) -> None:
    found = dump.objects()
    for pod in dump.pods_of(found, WAITS):
        pod["status"]["conditions"][0]["message"] = "\x1b[2J0/4 nodes are available\nline: 4 Insufficient cpu"
    answer = ask_about(tmp_path, found, verb, WAITS)
    assert answer.code in {0, 1}
    assert "\x1b" not in answer.out


def test_an_object_that_was_written_twice_in_one_state_is_read_once(tmp_path: Path) -> None:
    """As by ``oc adm inspect``: in a list of pods, and each running pod in a file of its own."""
    pods = [{**raw, "metadata": {**raw["metadata"], "resourceVersion": "7"}} for raw in dump.objects("Pod")]
    found = [*pods, *dump.objects(but=["Pod"])]
    once = ask_about(tmp_path, found, "why", WAITS)
    twice = ask_about(tmp_path, [*found, *pods], "why", WAITS)
    assert (twice.code, twice.out, twice.err) == (once.code, once.out, once.err)
    later = {**pods[0], "metadata": {**pods[0]["metadata"], "resourceVersion": "8"}}
    assert ask_about(tmp_path, [*found, later], "why", WAITS).code == 2


def test_an_object_that_is_in_two_files_is_an_error(tmp_path: Path) -> None:
    """Counted twice, its node would have room for what waits."""
    nodes = [raw for raw in dump.objects("Node") if raw["metadata"]["name"] == "node-0"]
    again = write(tmp_path / "again.yaml", *nodes)
    answer = gangctl("why", WAITS, "-f", str(dump.STUCK), "-f", again)
    assert answer.code == 2
    assert f"{again}:1:1: Node node-0 is there already, at " in answer.err
