"""Writes docs/reference/crds.md and a page for each kind from the definitions: every field of gangctl's objects.

python -m tests.manifests.fieldspage
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.manifests.definitions.admissionparameters import definitions as check_definitions
from tests.manifests.definitions.gangs import definitions as gang_definitions
from tests.manifests.definitions.pathwaysjobs import definitions as pathways_definitions
from tests.manifests.definitions.policies import definitions as policy_definitions

DIRECTORY: Final = Path(__file__).parents[2] / "docs" / "reference"

_HEAD: Final = """\
# Objects

The kinds that gangctl defines, with a page for the fields of each.
"""


_NOTE: Final = """\
Written by `python -m tests.manifests.fieldspage` from the definition. `kubectl explain KIND --recursive` says the same
of a cluster. A field with `*` has to be given; `[]` is an item of a list, `{}` a value of a map.
"""


class _Known(NamedTuple):
    """What a definition does not say."""

    text: str
    more: str


_KINDS: Final[Mapping[str, _Known]] = {
    "GangPolicy": _Known(
        "Rules in CEL for JobSets, and defaults for JobSets that do not set a field.", "../policies.md"
    ),
    "GangPolicyException": _Known("Exempts JobSets from rules until a date.", "../policies.md#exceptions"),
    "GangAdmissionParameters": _Known("Tunes an AdmissionCheck of gangctl's.", "../admission-order.md"),
    "Gang": _Known("Where a JobSet stands; the controller writes it.", "../readiness.md"),
    "PathwaysJob": _Known("A head and workers on TPU slices, which become a JobSet.", "../pathways.md"),
}
_COMPONENTS: Final[Mapping[str, str]] = {
    "GangPolicy": "policies",
    "GangPolicyException": "policies",
    "GangAdmissionParameters": "kueue-check",
    "Gang": "gang-objects",
    "PathwaysJob": "pathways",
}
_LIMITS: Final[tuple[tuple[str, str], ...]] = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("minProperties", "at least {} keys"),
    ("maxProperties", "at most {} keys"),
)


class Field(NamedTuple):
    """One field of an object: its path below the object, such as ``spec.variables[].name``."""

    path: str
    type: str
    required: bool
    text: str


def definitions() -> list[dict[str, Any]]:
    """Every CustomResourceDefinition, policies first."""
    found = (policy_definitions(), check_definitions(), gang_definitions(), pathways_definitions())
    return sorted(
        (each for group in found for each in group.values()), key=lambda each: list(_KINDS).index(_kind(each))
    )


def _kind(definition: Mapping[str, Any]) -> str:
    kind: str = definition["spec"]["names"]["kind"]
    return kind


def fields(definition: Mapping[str, Any]) -> list[Field]:
    """What can be written below ``spec`` and read below ``status``, in the order of the schema."""
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    of_all = {"apiVersion", "kind", "metadata"}
    return [
        field for name, below in schema["properties"].items() if name not in of_all for field in _fields(below, name)
    ]


def _fields(schema: Mapping[str, Any], path: str, *, required: bool = False) -> Iterator[Field]:
    yield Field(path, _type(schema), required, _text(schema))
    inner, mark = _inner(schema)
    if mark and inner.get("description") and not inner.get("properties"):
        yield Field(path + mark, _type(inner), required=False, text=_text(inner))
    needed = inner.get("required", ())
    for name, below in inner.get("properties", {}).items():
        yield from _fields(below, f"{path}{mark}.{name}", required=name in needed)


def _inner(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """What is one step below lists and maps, and how that is written."""
    if "items" in schema:
        inner, mark = _inner(schema["items"])
        return inner, f"[]{mark}"
    if isinstance(schema.get("additionalProperties"), dict):
        inner, mark = _inner(schema["additionalProperties"])
        return inner, f"{{}}{mark}"
    return schema, ""


def _type(schema: Mapping[str, Any]) -> str:
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    return str(schema.get("format") or schema.get("type", "anything"))


def _text(schema: Mapping[str, Any]) -> str:
    """Its description, its allowed values and its default."""
    item = schema.get("items", schema)
    said = [str(schema.get("description", ""))]
    if "enum" in item:
        said.append("One of " + ", ".join(f"`{value}`" for value in item["enum"]) + ".")
    limits = [_limit(key, text, schema[key]) for key, text in _LIMITS if schema.get(key)]
    if limits:
        said.append(_sentence(", ".join(limits)))
    if "default" in schema:
        said.append(f"Default: {_value(schema['default'])}.")
    said += [_sentence(rule["message"]) for rule in _rules(schema)]
    return " ".join(text for text in said if text)


def _limit(key: str, text: str, bound: int) -> str:
    return "not empty" if key.startswith("min") and key != "minimum" and bound == 1 else text.format(f"{bound:,}")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _rules(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [rule for rule in schema.get("x-kubernetes-validations", ()) if "message" in rule]


def _value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_value(each) for each in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    found = definitions()
    kinds = {f"{_kind(each).lower()}.md": "\n".join(_page(each)) for each in found}
    return {"crds.md": "\n".join([_HEAD, *_index(found)]), **kinds}


def _index(found: list[dict[str, Any]]) -> Iterator[str]:
    yield "| kind | API | of | what it is | component |"
    yield "|---|---|---|---|---|"
    for each in found:
        spec, kind = each["spec"], _kind(each)
        where = "a namespace" if spec["scope"] == "Namespaced" else "the cluster"
        api = f"`{spec['group']}/{spec['versions'][0]['name']}`"
        component = f"[{_COMPONENTS[kind]}](../../manifests/{_COMPONENTS[kind]}/kustomization.yaml)"
        yield f"| [{kind}]({kind.lower()}.md) | {api} | {where} | {_KINDS[kind].text} | {component} |"
    yield ""


def _page(definition: Mapping[str, Any]) -> Iterator[str]:
    kind, names = _kind(definition), definition["spec"]["names"]
    short = "".join(f", `{name}`" for name in names.get("shortNames", ()))
    yield f"# {kind}"
    yield ""
    yield f"{_KINDS[kind].text} As a resource: `{names['plural']}`{short}. More: [{_more(kind)}]({_KINDS[kind].more})."
    yield ""
    yield _NOTE
    yield "| field | type | |"
    yield "|---|---|---|"
    for field in fields(definition):
        yield f"| `{field.path}`{'*' if field.required else ''} | {field.type} | {_cell(field.text)} |"
    yield ""


def _more(kind: str) -> str:
    return _KINDS[kind].more.partition("#")[0].removeprefix("../")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    for name, text in pages().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
