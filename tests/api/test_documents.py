"""Documents: data as the API server gets it, positions as an editor shows them, and one error for the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.documents import parse_documents
from gangctl.api.documents_reader import SourceError, TextLimits
from gangctl.api.fieldpath import FieldPath
from gangctl.errors import InputError
from tests.rows import each

JOBSET = """\
# a comment
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
spec:
  replicatedJobs:
  - name: workers
    template:
      metadata:
        annotations:
          gangctl.dev/gang-mode: Gang
  - {name: driver, replicas: 1}
"""


def values(text: str | bytes, **limits: int) -> list[dict[str, Any]]:
    return [document.value for document in parse_documents(text, "f.yaml", limits=TextLimits(**limits))]


def refusal(text: str | bytes, **limits: int) -> str:
    with pytest.raises(InputError) as caught:
        values(text, **limits)
    return caught.value.message


def test_one_document_is_read() -> None:
    (document,) = parse_documents(JOBSET, "jobs.yaml")
    assert document.value["spec"]["replicatedJobs"][1] == {"name": "driver", "replicas": 1}
    assert (document.source, document.line) == ("jobs.yaml", 2)


@each(
    ("path", "position"),
    [
        ("", (2, 1)),
        ("kind", (3, 1)),
        ("metadata.name", (5, 3)),
        ("spec.replicatedJobs[0]", (8, 5)),
        ("spec.replicatedJobs[0].template.metadata.annotations[gangctl.dev/gang-mode]", (12, 11)),
        ("spec.replicatedJobs[1].replicas", (13, 20)),
    ],
)
def test_fields_have_their_positions(path: str, position: tuple[int, int]) -> None:
    (document,) = parse_documents(JOBSET, "f")
    assert document.position(path) == position
    assert document.position(FieldPath.parse(path)) == position


@pytest.mark.parametrize(
    ("path", "position"),
    [("spec.network.subdomain", (6, 1)), ("spec.replicatedJobs[7].name", (7, 3)), ("kind.name[0]", (3, 1))],
)
def test_an_absent_field_has_the_position_of_its_parent(path: str, position: tuple[int, int]) -> None:
    (document,) = parse_documents(JOBSET, "f")
    assert document.position(path) == position


def test_a_place_is_written_as_file_line_and_column() -> None:
    (document,) = parse_documents(JOBSET, "jobs.yaml")
    assert document.where("metadata.name") == "jobs.yaml:5:3"


def test_the_data_decides_between_an_index_and_a_key_of_digits() -> None:
    (document,) = parse_documents("data:\n  '0': x\n", "f")
    assert document.position("data[0]") == (2, 3)


def test_columns_count_characters_and_lines_end_in_any_way() -> None:
    (document,) = parse_documents("a: 1\r\n\U0001f600é: {b: 2}\r\nc: 3\r\n".encode(), "f")
    assert [document.position(path) for path in ("a", "\U0001f600é.b", "c")] == [(1, 1), (2, 6), (3, 1)]


def test_empty_documents_are_left_out() -> None:
    text = "# head\n---\na: 1\n---\n# nothing\n---\n~\n---\nb: 2\n...\n---\n"
    documents = parse_documents(text, "f")
    assert [(document.value, document.line) for document in documents] == [({"a": 1}, 3), ({"b": 2}, 9)]


@each("text", ["", "\n\n", "# only a comment\n", "---\n---\n", b""])
def test_an_empty_text_has_no_documents(text: str | bytes) -> None:
    assert values(text) == []


def test_a_list_is_its_items_with_their_places() -> None:
    text = "kind: List\napiVersion: v1\nitems:\n- kind: A\n  x: 1\n- kind: List\n  items:\n  - kind: B\n- {kind: C}\n"
    documents = parse_documents(text, "f")
    assert [document.value["kind"] for document in documents] == ["A", "B", "C"]
    assert [document.line for document in documents] == [4, 8, 9]
    assert documents[0].position("x") == (5, 3)
    assert documents[1].position("kind") == (8, 5)


@pytest.mark.parametrize("items", ["items:", "items: []"])
@each("kind", ["List", "PodList", "JobSetList"])
def test_an_empty_list(items: str, kind: str) -> None:
    assert values(f"kind: {kind}\n{items}\n") == []


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
PODS = {"apiVersion": "v1", "kind": "PodList"}
A_JOBSET = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"}}


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
@each(
    ("kind", "items", "read"),
    [
        ("PodList", [{"metadata": {"name": "a"}}], [POD]),
        ("PodList", [POD, {"metadata": {"name": "a"}}], [POD, POD]),
        # Items of a custom resource have their own kind and version.
        ("JobSetList", [A_JOBSET], [A_JOBSET]),
        (
            "List",
            [A_JOBSET, {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}],
            [A_JOBSET, POD],
        ),
        # What names no kind stays as it is.
        ("List", [{"metadata": {"name": "a"}}], [{"metadata": {"name": "a"}}]),
    ],
)
def test_a_typed_list_is_its_items(kind: str, items: list[Any], read: list[Any], write: Callable[[Any], str]) -> None:
    """As `kubectl get --raw`, `kubectl cluster-info dump` and the API itself write them."""
    assert (
        values(write({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})) == read
    )


@each("kind", ["AllowList", "List2"])
def test_a_custom_resource_that_is_no_list_stays_whole(kind: str) -> None:
    value = {"kind": kind, "apiVersion": "x.example/v1", "metadata": {"name": "a"}, "items": [{"a": 1}]}
    assert values(json.dumps(value)) == [value]


@each(
    "text",
    [
        "metadata:\n  name: {{ .Values.name }}\n",
        "{{- if .Values.enabled }}\nkind: JobSet\n{{- end }}\n",
        'metadata:\n  labels:\n    {{- include "x.labels" . | nindent 4 }}\n',
        "spec:\n  replicas: {{ $n }}\n",
        "spec:\n{{/* a comment */}}\n  a: b: c\n",
    ],
)
def test_a_helm_template_is_named_with_the_command_that_renders_it(text: str) -> None:
    with pytest.raises(SourceError, match=r"is a template of Helm: render its chart with helm template CHART"):
        values(text)


@each("text", ['a: "{{ .Values.name }}"\n', "a: '{{ $labels.pod }} is down'\n", "a: {b: {c: 1}}\n"])
def test_a_text_with_braces_is_read(text: str) -> None:
    """Alerts and templates of other tools are texts of valid manifests."""
    assert values(text) == [yaml.safe_load(text)]


def test_a_dump_with_logs_in_it_is_named_with_the_option_that_writes_files() -> None:
    text = '{"kind": "PodList", "apiVersion": "v1", "items": []}\n==== START logs for container a of pod b/c ====\n1\n'
    with pytest.raises(SourceError, match=r"f.yaml:2:1: are logs of kubectl cluster-info dump: .* --output-directory"):
        values(text)


@each(
    ("text", "complaint"),
    [
        ("- a\n", "f.yaml:1:1: this document is a list, not an object with fields"),
        ("a: 1\n---\nhello\n", 'f.yaml:3:1: this document is "hello", not an object with fields'),
        ("kind: List\nitems: 3\n", "f.yaml:2:1: items of a List must be a list"),
        ("kind: List\nitems:\n- 3\n", "f.yaml:3:3: this entry of a List is 3, not an object with fields"),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: duplicate key 'a', first at line 1, column 1"),
        ("x:\n  1: a\n  '1': b\n", "f.yaml:3:3: duplicate key '1', first at line 2, column 3"),
        ('{"a": 1, "a": 1}', "f.yaml:1:10: duplicate key 'a', first at line 1, column 2"),
        ("a:\n\tb: 1\n", "f.yaml:2:1: a tab cannot indent YAML"),
        ('x: "{{.Names}}"\nc: 1\na:\n\tb: 1\n', "f.yaml:4:1: a tab cannot indent YAML"),
        ('x: "{{.Names}}"\na: 1\nb: 2\nb: 3\n', "f.yaml:4:1: duplicate key 'b', first at line 3, column 1"),
        ("a: b\x01c\n", "f.yaml:1:5: character U+0001 is not allowed in YAML"),
        ("a: b\ufeffc\n", "f.yaml:1:5: character U+FEFF is not allowed in YAML"),
        ("a: \ud800\n", "f.yaml:1:4: U+D800 is half a character (a lone surrogate)"),
        (b"a: \xc3\xa9\nb: \xff\n", "f.yaml:2:4: byte 0xff is not UTF-8"),
        (b"\xff\xfea", "f.yaml:1:1: begins as UTF-16, and is not"),
        ("a: b: c\n", "f.yaml:1:5: mapping values are not allowed in this context"),
        ("a: @b\n", "f.yaml:1:4: '@' cannot begin a value"),
        (
            "a: 'b\n",
            "f.yaml:2:1: found unexpected end of stream (while scanning a quoted scalar that begins at line 1)",
        ),
        ("a: [1\nb: 2\n", "f.yaml:2:2: did not find expected ',' or ']' (while parsing a flow sequence that begins at"),
        ("a: .inf\n", "f.yaml:1:4: JSON has no number inf"),
        ("a: !!int x\n", "f.yaml:1:4: 'x' is not a !!int"),
        ("a: !!int yes\n", "f.yaml:1:4: 'yes' is not a !!int"),
        ("a: !!binary eA==\n", "f.yaml:1:4: tag !!binary has no meaning in a Kubernetes manifest"),
        ("a: !env HOME\n", "f.yaml:1:4: tag !env has no meaning in a Kubernetes manifest"),
        ("a: !!set {x}\n", "f.yaml:1:4: tag !!set has no meaning in a Kubernetes manifest"),
        ("~: 1\n", "f.yaml:1:1: a key must not be null"),
        ("? [a]\n: 1\n", "f.yaml:1:3: a key must be text, not a mapping or a list"),
        ("a: &x [1]\n? *x\n: 1\n", "f.yaml:2:3: a key must be text, not a mapping or a list"),
        ("a: *b\n", "f.yaml:1:4: alias *b has no anchor before it"),
        ("a: &b [*b]\n", "f.yaml:1:8: alias *b is part of what it stands for"),
        ("a: &b 1\n---\na: *b\n", "f.yaml:3:4: alias *b has no anchor before it"),
        ("a: {<<: 1}\n", "f.yaml:1:9: << takes a mapping or a list of mappings"),
        ("a: {<<: [{b: 1}, 2]}\n", "f.yaml:1:9: << takes a mapping or a list of mappings"),
        ("a: 1\n<<: {a: 2}\n", "f.yaml:1:1: key 'a' is also merged by the << below it"),
    ],
)
def test_an_error_has_its_place_and_message(text: str | bytes, complaint: str) -> None:
    assert refusal(text).startswith(complaint)


def test_an_error_has_its_position_as_data() -> None:
    with pytest.raises(SourceError) as caught:
        values("a: 1\nb: [\n")
    assert (caught.value.line, caught.value.exit_code) == (3, 2)


# Aliases and merge keys


@each(
    "text", [b"\xef\xbb\xbfa: 1\n", "\ufeffa: 1\n", *("\ufeffa: 1\n".encode(f"utf-16-{end}") for end in ("le", "be"))]
)
def test_a_byte_order_mark_is_skipped(text: str | bytes) -> None:
    (document,) = parse_documents(text, "f.yaml")
    assert (document.value, document.where("a")) == ({"a": 1}, "f.yaml:1:1")


def test_an_alias_is_a_copy() -> None:
    (value,) = values("a: &x {b: [1]}\nc: *x\nd: &s text\ne: *s\n*s : key\n")
    assert value == {"a": {"b": [1]}, "c": {"b": [1]}, "d": "text", "e": "text", "text": "key"}
    value["a"]["b"].append(2)
    assert value["c"] == {"b": [1]}


def test_a_field_of_an_alias_has_the_position_of_its_anchor() -> None:
    (document,) = parse_documents("a: &x\n  b: 1\nc: *x\nd:\n  <<: *x\n", "f")
    assert [document.position(path) for path in ("c", "c.b", "d.b")] == [(3, 1), (2, 3), (2, 3)]


def test_merge_keys_are_resolved() -> None:
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\none: {<<: *x, b: 9}\n"
    text += "both:\n  <<: [*x, *y]\n  c: 9\nquoted: {'<<': 1}\n"
    (value,) = values(text)
    assert value["one"] == {"a": 1, "b": 9}
    assert value["both"] == {"a": 1, "b": 1, "c": 9}
    assert value["quoted"] == {"<<": 1}


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


def test_aliases_that_multiply_are_stopped() -> None:
    assert "f.yaml:6:" in refusal(bomb(30))
    assert refusal(bomb(30)).endswith("aliases stand for more than 100000 values in all")


def test_the_alias_limit_holds_over_all_documents() -> None:
    document = "a: &a [1, 2]\nb: *a\n---\n"
    assert len(values(document * 3, max_expanded=9)) == 3
    assert "more than 9 values" in refusal(document * 4, max_expanded=9)


def test_aliases_cannot_nest_deeper_than_brackets() -> None:
    text = "a0: &a0 []\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 300))
    assert refusal(text).endswith("nested more than 200 levels deep")


# Size and depth


@each("text", ["[" * 100_000, '{"a":' * 100_000, "- " * 100_000, "a: " + "[" * 100_000, "{a: " * 50_000])
def test_deep_nesting_is_one_clear_error(text: str) -> None:
    assert refusal(text).endswith("nested more than 200 levels deep")


@pytest.mark.parametrize("make", [lambda n: "a: " + "[" * n + "]" * n, lambda n: '{"a":' * n + "1" + "}" * n])
def test_the_depth_limit_is_exact(make: Callable[[int], str]) -> None:
    levels = 9 if make(1).startswith("a") else 10
    assert values(make(levels), max_depth=10)
    assert "more than 10 levels" in refusal(make(levels + 1), max_depth=10)


@pytest.mark.parametrize("text", ["a: é" + "x" * 16, ("a: é" + "x" * 16).encode()])
def test_size_is_counted_in_bytes(text: str | bytes) -> None:
    assert values(text, max_bytes=21)
    assert refusal(text, max_bytes=20) == "f.yaml:1:1: 0.0 MiB is more than the limit of 0.0 MiB"


def test_ten_megabytes_are_refused_without_being_read() -> None:
    assert refusal(b"\xff" * 10_485_760) == "f.yaml:1:1: 10.0 MiB is more than the limit of 8.0 MiB"


# JSON


def test_json_has_places_too() -> None:
    text = '{\n  "kind": "List",\n  "items": [\n    {"kind": "A", "s": {"b\\u0041": [10, {"c": 1}]}}\n  ]\n}\n'
    (document,) = parse_documents(text, "f")
    assert document.value == {"kind": "A", "s": {"bA": [10, {"c": 1}]}}
    assert document.line == 4
    assert [document.position(path) for path in ("s.bA", "s.bA[0]", "s.bA[1].c")] == [(4, 25), (4, 37), (4, 42)]


def test_json_that_is_no_yaml_is_read() -> None:
    (value,) = values('\t{"\\ud83d\\ude00": "\\/\x7f", "' + "k" * 2000 + '": 1}')
    assert value["\U0001f600"] == "/\x7f"


def test_consecutive_json_documents_are_read() -> None:
    assert values('{"a": 1}\n{"b": 2} {"c": 3}') == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_json_numbers_are_read() -> None:
    (value,) = values('{"a": 3.0, "b": 1e3, "c": -0, "d": 18446744073709551615, "e": 1e22, "f": 0.5}')
    assert json.dumps(value) == '{"a": 3, "b": 1000, "c": 0, "d": 18446744073709551615, "e": 1e+22, "f": 0.5}'


def test_flow_style_yaml_is_read() -> None:
    assert values("{a: 1, b: [x,],}") == [{"a": 1, "b": ["x"]}]
    assert values('{"a": 1}\n---\n{"b": 2}\n') == [{"a": 1}, {"b": 2}]


@each(
    ("text", "complaint"),
    [
        ('{"a": 1', "f.yaml:1:8: expected ',' or '}', found the end"),
        ('{"a": 1}}', "f.yaml:1:9: expected a value, found '}'"),
        ('{"a": 1}\n{"b": 01}', "f.yaml:2:7: '01' is not a JSON value"),
        ('{"a": NaN}\n{', "f.yaml:2:1: did not find expected <document start>"),
        ('{"a": 1e999}\n{', "f.yaml:2:1: did not find expected <document start>"),
        ('{"a": "\\ud800"}', "f.yaml:1:10: found invalid Unicode character escape code"),
        ('{"a": "b', "f.yaml:1:9: found unexpected end of stream"),
        ('{"a": "b\x00"}', "f.yaml:1:9: character U+0000 is not allowed"),
        ('{"a" 1}', "f.yaml:1:6: expected ':', found '1'"),
        ("{{ }}", "f.yaml:1:2: expected a key in double quotes, found '{'"),
        ("[1]", "f.yaml:1:1: this document is a list"),
    ],
)
def test_invalid_json_is_refused_with_its_place(text: str, complaint: str) -> None:
    assert refusal(text).startswith(complaint)


def test_an_unterminated_string_is_refused_in_linear_time() -> None:
    assert refusal('{"a": "' + "\\\\x" * 200_000)


# Properties

KEYS = st.text(max_size=5)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=4).filter(lambda value: value.get("kind") != "List")


@given(OBJECTS, st.sampled_from([None, 1]), st.booleans())
def test_json_has_the_value_of_the_standard_library(value: dict[str, Any], indent: int | None, escaped: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    assert values(text) == [json.loads(text)]


@given(st.text(max_size=60) | st.text(alphabet="a1-:?[]{}&*#|>'\"%!<, \n\t", max_size=40) | st.binary(max_size=40))
def test_any_text_is_documents_or_one_located_error(text: str | bytes) -> None:
    try:
        documents = parse_documents(text, "f")
    except InputError as error:
        name, line, column, message = error.message.split(":", 3)
        assert name == "f"
        assert min(int(line), int(column)) >= 1
        assert message.strip()
    else:
        assert all(isinstance(document.value, dict) for document in documents)


def fields(value: Any, path: FieldPath) -> list[tuple[FieldPath, Any]]:
    found: list[tuple[FieldPath, Any]] = []
    if isinstance(value, dict):
        for key, each in value.items():
            found += [(path.child(key), key), *fields(each, path.child(key))]
    if isinstance(value, list):
        for index, each in enumerate(value):
            found += fields(each, path.index(index))
    return found


@given(OBJECTS)
def test_the_position_of_every_field_is_that_of_its_key(value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=1)
    (document,) = parse_documents(text, "f")
    lines = text.split("\n")
    for path, key in fields(value, FieldPath()):
        line, column = document.position(path)
        assert lines[line - 1][column - 1 :].startswith(json.dumps(key) + ":")
