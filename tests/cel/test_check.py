from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.check import check
from gangctl.cel.environments import NAMESPACE, REQUEST, admission
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.limits import profile_of
from gangctl.cel.types import BOOL, DYN, INT, NULL, QUANTITY, STRING, Type, list_of, map_of, optional_of
from tests.cel.calls import MIXED, fitting
from tests.cel.oracle import recorded
from tests.cel.shown import show
from tests.rows import each

GANG = Type("gang", fields={"pods": INT, "groups": list_of(Type("group", fields={"name": STRING, "minCount": INT}))})
ENVIRONMENT = admission({"total": INT, "names": list_of(STRING)}, computed={"gang": GANG})


@each(
    ("text", "type_"),
    [
        ("object.spec", DYN),
        ("object.spec.replicas > 1", BOOL),
        ("variables.total + 1", INT),
        ("variables.?total", optional_of(INT)),
        ("variables.names.map(n, size(n))", list_of(INT)),
        ("gang.groups.filter(g, g.minCount > 1).map(g, g.name)", list_of(STRING)),
        ("[]", list_of(DYN)),
        ("{}", map_of(DYN, DYN)),
        ("[[], [1]]", list_of(list_of(INT))),
        ("{'a': 1}.transformMap(k, v, string(v))", map_of(STRING, STRING)),
        ("{'a': 1}.transformMapEntry(k, v, {v: k})", map_of(INT, STRING)),
        ("['a'].transformList(i, v, i)", list_of(INT)),
        ("optional.of(1).optMap(x, string(x))", optional_of(STRING)),
        ("optional.none().orValue('a')", STRING),
        ("{'a': [1]}.?a[?0]", optional_of(INT)),
        ("request.userInfo.extra['a']", list_of(STRING)),
        ("request", REQUEST),
        ("namespaceObject", NAMESPACE),
        ("[quantity('1')].map(q, q.add(1))[0]", QUANTITY),
        ("object.a ? [1] : []", list_of(INT)),
        ("object.a + 1", INT),
        ("object.a + object.b", DYN),
        ("[3, 1].sortBy(x, -x)", list_of(INT)),
        ("object.l.all(object, object > 1)", BOOL),
    ],
)
def test_expressions_have_their_types(text: str, type_: Type) -> None:
    assert str(check(text, ENVIRONMENT).type) == str(type_)


def test_used_variables_and_functions_are_collected() -> None:
    found = check("object.a == params.b && variables.total > size(oldObject.x.filter(object, object.y))", ENVIRONMENT)
    assert found.reads == {"object", "params", "variables", "oldObject"}
    assert found.variables == {"total"}
    assert found.functions == {"_==_", "_>_", "size"}


@each(
    ("text", "kind", "wrong", "message", "hint"),
    [
        ("objekt.a", "UNDECLARED", "objekt", "there is no variable 'objekt'", "did you mean object?"),
        ("request.nam", "UNDECLARED", "nam", "kubernetes.AdmissionRequest has no field 'nam'", "did you mean name?"),
        ("gang.group", "UNDECLARED", "group", "gang has no field 'group'", "did you mean groups?"),
        (
            "variables.totl",
            "UNDECLARED",
            "variables.totl",
            "there is no variable 'variables.totl'",
            "did you mean total?",
        ),
        (
            "object.a.startswith('b')",
            "UNDECLARED",
            "startswith",
            "there is no function 'startswith'",
            "did you mean startsWith?",
        ),
        (
            "cel.bind(x, 1, x)",
            "UNDECLARED",
            "cel.bind(x, 1, x)",
            "there is no cel.bind",
            "Kubernetes has no cel.bind: put the value into a variable of the policy",
        ),
        (
            "math.greatest(1, 2)",
            "UNDECLARED",
            "math",
            "there is no variable 'math'",
            "Kubernetes has no math functions: compare with < and >, or use min() and max() of a list",
        ),
        (
            "object.l.all(k)",
            "UNDECLARED",
            "all",
            "all takes 2 or 3 arguments, but there are 1",
            "write list.all(x, ...)",
        ),
        ("'a' + 1", "TYPE", "+", "'+' does not take string and int", "convert the other one: string(x)"),
        (
            "size(1)",
            "TYPE",
            "size",
            "size(int) does not exist",
            "there is size(bytes), size(list(A)), size(map(A, B)), size(string)",
        ),
        (
            "quantity('1') < quantity('2')",
            "TYPE",
            "<",
            "'<' does not take kubernetes.Quantity and kubernetes.Quantity",
            "quantities are compared by isGreaterThan, isLessThan and compareTo, and added by add",
        ),
        (
            "['a', object.x]",
            "TYPE",
            "object.x",
            "the others are string, but this is dyn",
            "elements have one type; wrap all of them in dyn(...) to mix",
        ),
        ("true && 'a'", "TYPE", "'a'", "&& takes bool, but this is string", ""),
        ("[1].exists(x, x)", "TYPE", "x", "the condition of exists takes bool, but this is int", ""),
        (
            "(1).exists(x, true)",
            "TYPE",
            "1",
            "exists cannot go over int",
            "macros go over lists, and over the keys of maps",
        ),
        ("'a'.b", "TYPE", "b", "string has no fields", ""),
        ("duration('1d')", "TYPE", "'1d'", "this is not a duration such as '1h30m'", ""),
        (r"'a'.matches('(')", "TYPE", "'('", "the pattern is not a regular expression", ""),
        ("int('a')", "TYPE", "'a'", "this is not what int() takes", ""),
        ("'%d'.format(['a'])", "TYPE", "'a'", "%d does not show string", ""),
        ("'%s %s'.format(['a'])", "TYPE", "'%s %s'", "the clause %s has no argument", ""),
        ("[?object.x]", "UNSUPPORTED", "object.x", "an entry with '?' takes an optional value, but this is dyn", None),
        (
            "authorizer.group('a')",
            "UNSUPPORTED",
            "authorizer",
            "'authorizer' would ask the API server at each request, which policies of gangctl do not",
            "",
        ),
    ],
)
def test_an_error_has_message_place_and_hint(text: str, kind: str, wrong: str, message: str, hint: str | None) -> None:
    with pytest.raises(CompileError) as caught:
        check(text, ENVIRONMENT)
    error = caught.value
    assert (error.kind.name, error.message) == (kind, message)
    assert text[error.offset : error.offset + error.length] == wrong
    if hint is not None:
        assert error.hint == hint


def test_the_result_must_have_the_requested_type() -> None:
    assert check("null", ENVIRONMENT, returns=(STRING, NULL)).type == NULL
    with pytest.raises(CompileError, match="must be bool, but it is dyn") as caught:
        check("object.spec.suspend", ENVIRONMENT, returns=(BOOL,))
    assert caught.value.hint == "compare it: == true"
    with pytest.raises(CompileError, match="must be string or null_type, but it is int"):
        check("1", ENVIRONMENT, returns=(STRING, NULL))


def test_params_and_gang_exist_only_if_declared() -> None:
    for text in ("params.a", "gang.pods"):
        with pytest.raises(CompileError) as caught:
            check(text, admission(params=False))
        assert caught.value.kind == CompileKind.UNDECLARED


def test_an_error_in_a_quoted_field_has_its_place() -> None:
    text = "request.`nam-e` == 'a'"
    with pytest.raises(CompileError) as caught:
        check(text, ENVIRONMENT)
    assert text[caught.value.offset : caught.value.offset + caught.value.length] == "`nam-e`"
    assert caught.value.message == "kubernetes.AdmissionRequest has no field 'nam-e'"


@each(
    ("text", "kind", "message"),
    [
        (f"'a'.matches('{'a' * 600}')", "LIMIT", "a pattern has at most 512 bytes"),
        ("'a' == '\ud800'", "SYNTAX", "this is half a character"),
        ("'%.101f'.format([1.0])", "LIMIT", "a format shows at most 100 digits after the point"),
        (f"[1]{'.map(a, {a: a})' * 17}.size() == 1", "LIMIT", "the types of the expression are too large"),
        (f"'%.{'9' * 5000}f'.format([1.0])", "LIMIT", "a format shows at most 100 digits after the point"),
    ],
)
def test_oversized_patterns_literals_and_types_are_refused(text: str, kind: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        check(text, ENVIRONMENT)
    assert (caught.value.kind.name, caught.value.message) == (kind, message)


PARTS = [*recorded(), *fitting()]


@given(st.text(max_size=80), st.sampled_from(MIXED), st.sampled_from(PARTS), st.sampled_from(PARTS))
def test_everything_is_accepted_or_refused_with_a_place(noise: str, shape: str, one: str, two: str) -> None:
    for text in (noise, one + noise, shape.format(one, two), shape.format(shape.format(one, two), two)):
        with contextlib.suppress(CompileError):
            found = check(text, ENVIRONMENT)
            assert 0 < profile_of(found).nodes <= 1000
            assert check(show(found.node), ENVIRONMENT).type == found.type
