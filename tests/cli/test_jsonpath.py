"""``-o jsonpath=``, ``-o custom-columns=`` and ``--sort-by``: what kubectl 1.37 printed for the same.

Templates were recorded with ``kubectl annotate --local -f OBJECT z=1 -o jsonpath=TEMPLATE``, the others with
``kubectl get configmaps`` in the sandbox.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.jsonpath import TemplateError, parse, parse_path, render
from gangctl.cli.output import ListItem, in_order, print_answer
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


def test_nulls_are_printed_as_kubectl_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    """``evalToText`` of client-go 0.37 for templates, ``fmt.Sprint`` for columns; a null has no items."""
    objects = [{"a": None}]
    assert [render(template, objects[0]) for template in ("{.a}", "{.a[0]}", "{.a[0:1]}")] == ["null", "", ""]
    print_answer("custom-columns=A:.a", objects)
    assert capsys.readouterr().out == "A\n<nil>\n"


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


@each(
    ("template", "message"),
    [
        ("{.spec.containers[0:2:0]}", "the step of a slice is 0"),
        ("{.spec.containers[-:]}", "expected an index, a slice"),
        (f"{{.spec.containers[{'9' * 5000}]}}", 'expected ","'),
        ("{range .}" * 3000 + "{end}" * 3000, "more than 100 ranges"),
    ],
)
def test_an_unsupported_template_is_refused_with_a_message(template: str, message: str) -> None:
    with pytest.raises(TemplateError, match=re.escape(message)):
        render(template, POD)


@each("path", [".a .b", ".a 'b'", "a}{.b"])
def test_a_column_has_one_path(path: str) -> None:
    with pytest.raises(TemplateError, match=r"more than one path|is no path"):
        parse_path(path)


@each("path", ["metadata.name", ".metadata.name", "{.metadata.name}", "{metadata.name}"])
def test_paths_of_columns_need_neither_dot_nor_braces(path: str) -> None:
    assert parse_path(path).find(POD) == ["p"]


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **({"data": data} if data else {})}


SIZES: Final = [config_map("none"), *(config_map(f"c{n}", n=n, size=f"{n}Mi", text=f"v{n}") for n in ("9", "10", "2"))]


@each(
    ("spec", "lines"),
    [
        (
            "NAME:.metadata.name,SIZE:.data.size",
            ["NAME   SIZE", "none   <none>", "c9     9Mi", "c10    10Mi", "c2     2Mi"],
        ),
        (
            "A:metadata.name,LONGHEADER:{.data.n}",
            ["A      LONGHEADER", "none   <none>", "c9     9", "c10    10", "c2     2"],
        ),
        ("X:.data.*", ["X", "<none>", "9,9Mi,v9", "10,10Mi,v10", "2,2Mi,v2"]),
    ],
)
def test_custom_columns_are_printed(spec: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(f"custom-columns={spec}", SIZES)
    assert capsys.readouterr().out.splitlines() == lines


@each(
    ("field", "names"),
    [
        (".data.n", ["none", "c2", "c9", "c10"]),
        ("{.data.size}", ["none", "c2", "c9", "c10"]),
        ("data.text", ["none", "c10", "c2", "c9"]),
        (".metadata.name", ["c10", "c2", "c9", "none"]),
    ],
)
def test_objects_are_sorted_by_a_field(field: str, names: list[str]) -> None:
    entries = [ListItem(each, ()) for each in SIZES]
    assert [found.document["metadata"]["name"] for found in in_order(entries, field)] == names


@given(st.text(alphabet="{}[]().*@$?'\"\\=<>!,:-0a \nrangend", max_size=30))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    for use in (parse, parse_path, lambda template: render(template, POD)):
        try:
            use(text)
        except TemplateError:
            continue
