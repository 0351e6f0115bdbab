"""``gangctl-test.yaml``: what a policy should say of which objects (``docs/gangctl-test.schema.json``)."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from gangctl.policy.model import API_VERSION

FILE_NAME: Final = "gangctl-test.yaml"
KIND: Final = "PolicyTest"


class Expected(StrEnum):
    """What a rule, or a policy as a whole, says of an object."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"
    ERROR = "error"


def _below(path: str) -> str:
    """Refuse what would make a test depend on where its directory stands."""
    parts = PurePosixPath(path).parts
    if not path.strip():
        raise ValueError("the path is empty")
    if path.startswith(("/", "~")) or "\\" in path:
        raise ValueError("paths are relative to the test file and written with /")
    if ".." in parts:
        raise ValueError('".." is not allowed: a test reads only what is in its directory or below')
    return path


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return text


def _text(value: Any) -> Any:
    """A rule without a name is known by its index, which YAML reads as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


RelativePath = Annotated[str, AfterValidator(_below)]
Pattern = Annotated[str, AfterValidator(_pattern)]
RuleId = Annotated[str, BeforeValidator(_text, json_schema_input_type=str | int)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class Selector(_Strict):
    """Which objects of the resources; what is absent does not matter."""

    kind: str | None = Field(None, description="Kind of the object.")
    namespace: str | None = Field(None, description="Namespace, as written in the file; default where it names none.")
    name: str = Field(description="Name of the object.")


def _selector(value: Any) -> Any:
    """``name``, ``namespace/name`` and ``Kind/namespace/name`` are short for a selector."""
    if not isinstance(value, str):
        return value
    parts = value.split("/")
    if len(parts) > 3 or not all(parts):  # noqa: PLR2004 - kind, namespace, name
        raise ValueError("write NAME, NAMESPACE/NAME or KIND/NAMESPACE/NAME")
    return dict(zip(("kind", "namespace", "name")[-len(parts) :], parts, strict=True))


Selected = Annotated[Selector, BeforeValidator(_selector, json_schema_input_type=str | Selector)]


class Row(_Strict):
    """One expectation. Each object that it selects is a test of its own."""

    policy: str = Field(description="Name of the policy.")
    rule: RuleId | None = Field(
        None, description="Name of the rule, or its index where it has none. Absent: the policy as a whole."
    )
    resources: Annotated[
        list[Selected],
        BeforeValidator(_several, json_schema_input_type=str | Selector | list[str | Selector]),
        Field(min_length=1, description="Objects by NAME, NAMESPACE/NAME, KIND/NAMESPACE/NAME or as selectors."),
    ]
    operation: Literal["CREATE", "UPDATE", "DELETE"] = Field("CREATE", description="What is asked for.")
    old: RelativePath | None = Field(
        None, description="File with the object as it was: at UPDATE, needed. At DELETE the resource itself is it."
    )
    params: str | None = Field(None, description="Only what is found with the parameter object of this name.")
    user: str = Field("kubernetes-admin", description="request.userInfo.username.")
    groups: tuple[str, ...] = Field(("system:authenticated",), description="request.userInfo.groups.")
    result: Expected = Field(
        description="pass; fail: violated, and the request is refused; warn: violated, and the request goes through; "
        "skip: the policy does not apply, or an exception covers it; error: the rule has no answer."
    )
    message: str | None = Field(None, description="The exact message of the violation or the error.")
    message_regex: Pattern | None = Field(None, description="A pattern (Python) found in the message.")
    description: str = Field("", description="What this shows; the test's name in reports.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.operation == "UPDATE" and self.old is None:
            raise ValueError("UPDATE needs old: the file with the object as it was")
        if self.operation != "UPDATE" and self.old is not None:
            raise ValueError(f"old is for UPDATE, the operation is {self.operation}")
        if self.message is not None and self.message_regex is not None:
            raise ValueError("message and messageRegex are alternatives")
        if self.result in {Expected.PASS, Expected.SKIP} and (self.message or self.message_regex):
            raise ValueError(f"there is no message where the result is {self.result}")
        return self


class Metadata(_Strict):
    """How the tests are called in reports."""

    name: str = Field(description="Name of the suite; by default its directory.")


class Suite(_Strict):
    """A test file: what is read, and what is expected of it. Paths are relative to the file."""

    api_version: Literal["gangctl.dev/v1alpha1"] = API_VERSION
    kind: Literal["PolicyTest"] = KIND
    metadata: Metadata | None = None
    policies: tuple[RelativePath, ...] = Field(
        min_length=1, description="Files or directories with GangPolicies, or native policies with their bindings."
    )
    resources: tuple[RelativePath, ...] = Field(min_length=1, description="Files or directories with the objects.")
    params: tuple[RelativePath, ...] = Field((), description="Files with parameter objects.")
    namespaces: tuple[RelativePath, ...] = Field((), description="Files with Namespaces.")
    queues: tuple[RelativePath, ...] = Field(
        (), description="Files with Kueue's objects and configuration, for the variable fit."
    )
    exceptions: tuple[RelativePath, ...] = Field((), description="Files with GangPolicyExceptions.")
    kubernetes: Literal["1.35", "1.36", "1.37", "1.38"] | None = Field(
        None, description="Kubernetes minor that gang plans are made for; by default the newest, or --kube."
    )
    now: AwareDatetime | None = Field(None, description="The time at which exceptions may have expired; default: now.")
    results: tuple[Row, ...] = Field(min_length=1, description="What is expected.")

    def at(self, otherwise: datetime) -> datetime:
        """The time of the requests."""
        return self.now or otherwise


def suite_schema() -> dict[str, Any]:
    """The JSON Schema of a test file."""
    schema = _untitled(Suite.model_json_schema(by_alias=True))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": KIND, **schema}


def _untitled(value: Any) -> Any:
    """Without the titles that only repeat the names of fields; a property may be called so itself."""
    if isinstance(value, list):
        return [_untitled(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _untitled(each) for key, each in value.items() if key != "title" or isinstance(each, dict)}
