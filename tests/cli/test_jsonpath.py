"""Templates of ``-o jsonpath=``: what kubectl 1.37 printed for the same template and the same object.

Recorded with ``kubectl annotate --local -f OBJECT z=1 -o jsonpath=TEMPLATE``.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cli.jsonpath import TemplateError, parse, parse_path, render
from tests.rows import each

POD: Final[dict[str, Any]] = {
    "kind": "Pod",
    "metadata": {"annotations": {"z": "1"}, "labels": {"a": "x", "b.c/d": "y"}, "name": "p"},
    "spec": {
        "containers": [
            {
                "image": "i1",
                "name": "one",
                "ports": [{"containerPort": 80}, {"containerPort": 443}],
                "resources": {"limits": {"cpu": "1"}},
            },
            {"image": "i2", "name": "two", "ports": [{"containerPort": 81}]},
            {"image": "i3", "name": "three"},
        ],
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 30,
    },
}


@each(
    ("template", "printed"),
    [
        ("{.metadata.name}", "p"),
        ("{ .metadata.name }", "p"),
        (".metadata.name", ".metadata.name"),
        ("{$.metadata.name}{@.kind}", "pPod"),
        ("{.spec.containers[*].name}", "one two three"),
        ("{.spec.containers[0].name}", "one"),
        ("{.spec.containers[-1].name}", "three"),
        ("{.spec.containers[0:2].name}", "one two"),
        ("{.spec.containers[::2].name}", "one three"),
        ("{.spec.containers[1:].name}", "two three"),
        ("{.spec.containers[0,2].name}", "one three"),
        ("{.spec.containers[0]['name','image']}", "one i1"),
        (r'{range .spec.containers[*]}{.name}{"\t"}{.image}{"\n"}{end}', "one\ti1\ntwo\ti2\nthree\ti3\n"),
        ("{range .spec.containers[*]}{range .ports[*]}{.containerPort},{end};{end}", "80,443,;81,;;"),
        ('{.spec.containers[?(@.name=="two")].image}', "i2"),
        ("{.spec.containers[?(@.name!='two')].image}", "i1 i3"),
        ("{.spec.containers[*].ports[?(@.containerPort>80)].containerPort}", "443 81"),
        ("{.spec.containers[?(@.ports[0].containerPort==81)].name}", "two"),
        ("{.spec.containers[?(@.ports)].name}", "one two"),
        ("{.metadata.labels}", '{"a":"x","b.c/d":"y"}'),
        ("{.metadata.labels.*}", "x y"),
        (r"{.metadata.labels.b\.c/d}", "y"),
        ("{.spec.containers[0].ports}", '[{"containerPort":80},{"containerPort":443}]'),
        ("{..name}", "p one two three"),
        ("{..containerPort}", "80 443 81"),
        ("{.spec.hostNetwork} {.spec.terminationGracePeriodSeconds}", "true 30"),
        ('a {"b"} {.metadata.name}!', "a b p!"),
        ("{.nope}{range .nope[*]}{.x}{end}.", "."),
        (r"{.metadata.name}{'\n'}", "p\n"),
    ],
)
def test_prints_what_kubectl_prints(template: str, printed: str) -> None:
    assert render(template, POD) == printed


@each(
    "template",
    [
        *("{.metadata.name", "{end}", "{range .a}", "{foo}", "{.a[}", '{.a[?(@.b=="c"]}', '{.a[?(@.b=="c" && @.d)]}'),
        *("{.spec.containers[5].name}", "{.metadata.name[0]}", "{.metadata.name[0:1]}", "{'a}", "{.a[?(b)]}"),
    ],
)
def test_refuses_what_kubectl_refuses(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, POD)


@each("path", ["metadata.name", ".metadata.name", "{.metadata.name}", "{metadata.name}"])
def test_paths_of_columns_need_neither_dot_nor_braces(path: str) -> None:
    assert parse_path(path).find(POD) == ["p"]


@given(st.text(alphabet="{}[]().*@$?'\"\\=<>!,:-0a \nrangend", max_size=30))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    for use in (parse, parse_path, lambda template: render(template, POD)):
        try:
            use(text)
        except TemplateError:
            continue
