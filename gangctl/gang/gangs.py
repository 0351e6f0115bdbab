"""Annotation ``gangctl.dev/gangs``: gangs over named ReplicatedJobs, each with options of its own.

A list in YAML or JSON. The annotations ``gang-mode`` and ``gang-options`` write its common cases shorter, and mean the
same. It can say what an entry of ``spec.scheduling.replicatedJobs`` can (KEP-969).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, model_validator
from pydantic import ValidationError as PydanticError
from pydantic.alias_generators import to_camel

from gangctl.api.documents import Limits, parse_value
from gangctl.api.meta import GANGS
from gangctl.api.modelerrors import field_errors
from gangctl.api.scheduling import Claim
from gangctl.api.sourcetext import SourceError
from gangctl.errors import ErrorKind, FieldError, one_line
from gangctl.gang.labels import LabelKey
from gangctl.gang.naming import MAX_LENGTH

PATH: Final = f"metadata.annotations[{GANGS}]"
MAX_CLAIMS: Final = 4
"""``MaxPodGroupResourceClaims`` of Kubernetes 1.36 and 1.37."""
_LIMITS: Final = Limits(max_bytes=64 * 1024, max_depth=8, max_values=20_000, max_expanded=1_000)
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=MAX_LENGTH)]
_ObjectName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", max_length=253)
]
_STRICT: Final = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class ResourceClaim(BaseModel):
    """A ResourceClaim that all pods of a gang share, by its own name or made from a template (KEP-5729)."""

    model_config = _STRICT

    name: _Name = Field(description="Name by which containers refer to the claim.")
    resource_claim_name: _ObjectName | None = Field(default=None, description="An existing ResourceClaim.")
    resource_claim_template_name: _ObjectName | None = Field(
        default=None, description="A ResourceClaimTemplate: Kubernetes makes one claim for each gang."
    )

    @model_validator(mode="after")
    def _one_source(self) -> ResourceClaim:
        if (self.resource_claim_name is None) is (self.resource_claim_template_name is None):
            raise ValueError("exactly one of resourceClaimName and resourceClaimTemplateName is needed")
        return self


class Gang(BaseModel):
    """One entry of the list."""

    model_config = _STRICT

    name: _Name = Field(description="Name of the gang: of its template in the Workload, and part of its groups' names.")
    replicated_jobs: tuple[str, ...] = Field(
        min_length=1, strict=False, description="The ReplicatedJobs whose pods are the gang; each is in one gang only."
    )
    per_replica: bool = Field(default=False, description="Each replica of the one ReplicatedJob is a gang of its own.")
    topology_key: LabelKey | None = Field(default=None, description="As in gang-options, for this gang.")
    disruption: Literal["single", "all"] | None = Field(default=None, description="As in gang-options, for this gang.")
    min_count: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        default=None, description="Pods that start together; by default, and at most, all of the gang."
    )
    resource_claims: tuple[ResourceClaim, ...] = Field(
        default=(), max_length=MAX_CLAIMS, strict=False, description="Claims that the pods of the gang share."
    )

    def claims(self) -> tuple[Claim, ...]:
        """:attr:`resource_claims` as objects have them."""
        return tuple(
            Claim(each.name, each.resource_claim_name or "", each.resource_claim_template_name or "")
            for each in self.resource_claims
        )

    @model_validator(mode="after")
    def _one_replicated_job(self) -> Gang:
        if self.per_replica and len(self.replicated_jobs) > 1:
            raise ValueError("perReplica needs exactly one entry in replicatedJobs")
        return self


_ADAPTER: Final = TypeAdapter(tuple[Gang, ...])


@lru_cache(maxsize=1024)
def parse_gangs(text: str) -> tuple[tuple[Gang, ...], tuple[FieldError, ...]]:
    """The entries of the annotation's value, or errors with their places in it."""
    try:
        value = parse_value(text, GANGS, limits=_LIMITS)
    except SourceError as error:
        return (), (FieldError(PATH, ErrorKind.INVALID, one_line(error.message.removeprefix(f"{GANGS}:"))),)
    if not isinstance(value, list) or not value:
        return (), (FieldError(PATH, ErrorKind.INVALID, "must be a list with at least one gang, in YAML or JSON"),)
    try:
        return _ADAPTER.validate_python(value), ()
    except PydanticError as problem:
        errors = tuple(FieldError(f"{PATH}{each.path}", each.kind, each.detail) for each in field_errors(problem))
        return (), errors


def check_members(gangs: Sequence[Gang], replicated_jobs: Iterable[str]) -> list[FieldError]:
    """Errors for names that do not exist, and for those that two entries share."""
    known = list(replicated_jobs)
    errors, names, taken = [], dict[str, str](), dict[str, str]()
    for index, gang in enumerate(gangs):
        path = f"{PATH}[{index}]"
        if gang.name in names:
            detail = f'"{gang.name}" is also the name of {names[gang.name]}'
            errors.append(FieldError(f"{path}.name", ErrorKind.DUPLICATE, detail))
        names.setdefault(gang.name, path)
        for position, name in enumerate(gang.replicated_jobs):
            where = f"{path}.replicatedJobs[{position}]"
            if name not in known:
                listed = one_line(", ".join(f'"{each}"' for each in known), 256)
                detail = f'there is no replicated job "{one_line(name, 64)}", there are {listed}'
                errors.append(FieldError(where, ErrorKind.INVALID, detail))
            elif name in taken:
                detail = f'replicated job "{name}" is in a gang already, at {taken[name]}'
                errors.append(FieldError(where, ErrorKind.DUPLICATE, detail))
            taken.setdefault(name, where)
    return errors


def gangs_text(gangs: Iterable[Gang]) -> str:
    """The value of the annotation, as JSON, without what is unset."""
    entries = [gang.model_dump(by_alias=True, exclude_defaults=True, mode="json") for gang in gangs]
    return json.dumps(entries, separators=(",", ":"))
