"""Bounds on cost: how large a value can become, and how often parts of an expression run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.policy.cel.check import check
from gangctl.policy.cel.environments import admission, with_variable
from gangctl.policy.cel.faults import CompileError, CompileKind
from gangctl.policy.cel.growth import CHARACTERS_FACTOR
from gangctl.policy.cel.types import STRING
from tests.rows import each

ENVIRONMENT = admission({"v": STRING})


def doubled(text: str, times: int, shape: str) -> str:
    for _ in range(times):
        text = shape.format(text)
    return text


@each(
    "text",
    [
        doubled("object.s", 7, "optional.of({}).optMap(v, v + v).value()"),
        doubled("object.s", 7, "[{}].map(v, v + v)[0]"),
        doubled("object.s", 7, "[{}].map(v, [v, v]).flatten().join('')"),
        doubled("object.s", 3, "{}.replace('a', object.s)"),
        doubled("object.l", 7, "[{}].map(l, l + l)[0]"),
        doubled("object.l", 7, "[{}].map(l, [l, l])"),
        doubled("object.l", 7, "[{0}].map(l, {{'a': l, 'b': l}})".replace("{0}", "{}")),
        doubled("object.s", 9, "['%s%s'].map(f, f.format([{}, 'x']))[0].format(['a', 'b'])"),
        doubled("object.s", 7, "[{}].map(v, strings.quote(v) + v)[0]"),
        doubled("'aaaaaaaaaaaaaaaa'", 3, "{}.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')"),
        "object.s.split('').map(a, object.s.split('').map(b, object.s))",
        "object.l.map(x, 'x').join(object.s).replace(object.a, object.b)",
        doubled("object.l", 4, "{}.map(x, object.l).flatten()"),
        "lists.range(object.n)",
        "lists.range(1000000)",
        "lists.range(1000 * 1000)",
        "'%.1000000f'.format([1.0])",
    ],
)
def test_what_can_grow_without_bounds_is_refused(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        check(text, ENVIRONMENT)
    assert caught.value.kind == CompileKind.LIMIT
    assert caught.value.offset + caught.value.length <= len(text)


@each(
    "text",
    [
        "object.s + object.s",
        doubled("object.s", 5, "optional.of({}).optMap(v, v + v).value()"),
        "object.l.map(x, object.metadata.name + '-' + x.name).join(', ')",
        "'no resources: ' + object.l.filter(j, j.x).map(j, 'job ' + j.name + ' in ' + object.metadata.name).join(', ')",
        "object.l.map(x, x.containers.map(c, c.name + ' of ' + x.name)).flatten().join(', ')",
        "object.l.map(x, object.k.map(y, x.a + y.a)).flatten().exists(z, z == '')",
        "object.s.replace('-', '').replace('_', '--').lowerAscii()",
        "object.s.split(',').map(x, x.trim()).filter(x, x != '')",
        "lists.range(size(object.l)).all(i, object.l[i] == i)",
        "lists.range(10).map(i, string(i))",
        "'%s is not %s, but %.2f'.format([object.a, object.b, object.c])",
        "object.l.all(x, object.l.filter(y, y.name == x.name).size() == 1)",
        "object.l.transformMap(i, v, v.name)",
        "strings.quote(object.s)",
    ],
)
def test_what_policies_say_is_not(text: str) -> None:
    check(text, ENVIRONMENT)


def test_growth_is_followed_through_variables() -> None:
    environment = ENVIRONMENT
    for _ in range(6):
        found = check("variables.v + variables.v", environment)
        environment = with_variable(environment, "v", found)
    with pytest.raises(CompileError, match="far beyond"):
        check("variables.v + variables.v", environment)


@given(st.integers(1, 40))
def test_the_bound_is_the_one_that_is_written(times: int) -> None:
    text = " + ".join(["object.s"] * 2)
    text = " + ".join([f"({text})"] * times)
    if 2 * times <= CHARACTERS_FACTOR:
        check(text, ENVIRONMENT)
    else:
        with pytest.raises(CompileError, match="far beyond"):
            check(text, ENVIRONMENT)


@each(
    ("text", "nodes", "work", "scans"),
    [
        ("object.a == 1", 4, (4,), (0,)),
        ("object.a == object.b", 5, (5,), (1,)),
        ("object.l.all(x, x.a > 1)", 7, (3, 4), (0, 0)),
        ("object.l.all(x, x.m.exists(y, y.name.matches('a')))", 10, (3, 3, 4), (0, 0, 1)),
        ("object.l.map(x, x.a).map(y, y)", 7, (4, 3), (0, 0)),
        ("object.l.distinct()", 3, (3,), (0,)),
        ("optional.of(object.a).optMap(x, x + 1)", 7, (7,), (0,)),
    ],
)
def test_profiles(text: str, nodes: int, work: tuple[int, ...], scans: tuple[int, ...]) -> None:
    profile = check(text, ENVIRONMENT).profile
    assert profile.nodes == nodes
    assert profile.work[: len(work)] == work
    assert profile.scans[: len(scans)] == scans


def test_bounds_grow_with_the_depth_of_loops() -> None:
    flat, nested = (check(text, ENVIRONMENT).profile for text in ("object.l.all(x, x)", "object.l.all(x, x.all(y, y))"))
    assert flat.bound(1000) < 2000
    assert nested.bound(1000) > 1_000_000
    distinct = check("object.l.distinct().size() > 1", ENVIRONMENT).profile
    assert distinct.bound(1000) > 1000
