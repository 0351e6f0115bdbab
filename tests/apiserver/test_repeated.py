"""Repeated entries of long lists are found without comparing each entry with each: admission waits for it."""

from __future__ import annotations

from typing import Any, ClassVar

from gangctl.apiserver.jobs import validate_spec
from gangctl.apiserver.metadata import Causes
from gangctl.apiserver.structural import validate
from tests.rows import each

MANY = 300
KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object"}}
SET = {"x-kubernetes-list-type": "set", "items": {"type": "string"}}


class Text(str):
    """A text that counts what it is compared with."""

    __slots__ = ()
    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Text.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


class Number(int):
    """The same of a number."""

    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Number.compared += 1
        return int.__eq__(self, other)

    __hash__ = int.__hash__


@each(("schema", "keyed"), [(KEYED, True), (SET, False)])
def test_a_repeated_entry_of_a_list_is_found(schema: dict[str, Any], keyed: bool) -> None:
    Text.compared = 0
    names = [Text(number) for number in range(MANY)] + [Text(0)]
    entries: list[Any] = [{"name": name} for name in names] if keyed else names
    (cause,) = validate(entries, {"type": "array", **schema}, path="spec.a")
    assert (cause.reason, cause.field) == ("FieldValueDuplicate", f"spec.a[{MANY}]")
    assert Text.compared < 4 * MANY


@each("repeated", [[], {}])
def test_a_repeated_key_of_a_wrong_type_is_found(repeated: Any) -> None:
    causes = validate([{"name": repeated}] * 2, {"type": "array", **KEYED}, path="spec.a")
    assert [(cause.reason, cause.field) for cause in causes] == [("FieldValueDuplicate", "spec.a[1]")]


def test_a_repeated_exit_code_is_found() -> None:
    Number.compared = 0
    values = [Number(number) for number in (*range(1, MANY), MANY - 1)]
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": values}}
    pod = {"spec": {"containers": [], "restartPolicy": "Never"}}
    causes = Causes()
    validate_spec({"completionMode": "NonIndexed", "podFailurePolicy": {"rules": [rule]}, "template": pod}, causes)
    place = "spec.podFailurePolicy.rules[0].onExitCodes.values"
    assert [(cause.reason, cause.field) for cause in causes] == [
        ("FieldValueTooMany", place),
        ("FieldValueDuplicate", f"{place}[{MANY - 1}]"),
    ]
    assert Number.compared < 4 * MANY
