"""The user's GangConfig, from annotations or from ``gangConfig`` (KEP-1068).

Both notations mean the same. If both are given and differ, that is an error, because any order of precedence would
surprise some users. Annotation ``gangctl.dev/gangs`` is a list in YAML or JSON of gangs over named ReplicatedJobs, each
with options of its own: what an entry of ``spec.scheduling.replicatedJobs`` can say (KEP-969). The annotations
``gang-mode`` and ``gang-options`` write its common cases shorter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, model_validator
from pydantic import ValidationError as PydanticError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from gangctl.api.documents import parse_value
from gangctl.api.documents_reader import SourceError, TextLimits
from gangctl.api.jobset import JobSet, ReplicatedJob
from gangctl.api.meta import GANG_MODE, GANG_OPTIONS, GANGS, KeyRole, Place, keys_at
from gangctl.api.modelerrors import field_errors, message_of
from gangctl.api.scheduling import Claim
from gangctl.errors import ErrorKind, FieldError, one_line
from gangctl.gang.naming import MAX_LENGTH

_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_KEY: Final = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
_LABEL_PREFIX_LENGTH: Final = 253
_LABEL_KEY_LENGTH: Final = _LABEL_PREFIX_LENGTH + 1 + 63


def is_label_key(text: str) -> bool:
    """Whether a node label can have this key."""
    prefix = text.rpartition("/")[0]
    return len(prefix) <= _LABEL_PREFIX_LENGTH and re.fullmatch(LABEL_KEY, text) is not None


def _with_a_short_prefix(key: str) -> str:
    if not is_label_key(key):
        raise PydanticCustomError("label_prefix", "The prefix of a label key has at most 253 characters")
    return key


LabelKey = Annotated[
    str,
    StringConstraints(pattern=LABEL_KEY, max_length=_LABEL_KEY_LENGTH),
    # A pattern of JSON Schema has no bound for one part of a text.
    AfterValidator(_with_a_short_prefix),
]


PATH: Final = f"metadata.annotations[{GANGS}]"
MAX_CLAIMS: Final = 4
"""``MaxPodGroupResourceClaims`` of Kubernetes 1.36 and 1.37."""
_LIMITS: Final = TextLimits(max_bytes=64 * 1024, max_depth=8, max_values=20_000, max_expanded=1_000)
_Name = Annotated[str, StringConstraints(pattern=f"^{_DNS_LABEL}$", max_length=MAX_LENGTH)]
_ObjectName = Annotated[str, StringConstraints(pattern=rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*$", max_length=253)]
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
    # Not strict: pydantic's strict mode takes no list, as JSON and YAML have it, for a tuple.
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
            Claim(
                resource_claim.name,
                resource_claim.resource_claim_name or "",
                resource_claim.resource_claim_template_name or "",
            )
            for resource_claim in self.resource_claims
        )

    @model_validator(mode="after")
    def _one_replicated_job(self) -> Gang:
        if self.per_replica and len(self.replicated_jobs) > 1:
            raise ValueError("perReplica needs exactly one entry in replicatedJobs")
        return self


_ADAPTER: Final = TypeAdapter(tuple[Gang, ...])


def parse_gangs(text: str) -> tuple[tuple[Gang, ...], tuple[FieldError, ...]]:
    """The entries of the annotation's value, or errors with their places in it."""
    try:
        return _parsed(text)
    except SourceError as error:
        return (), (FieldError(PATH, ErrorKind.INVALID, one_line(error.message.removeprefix(f"{GANGS}:"))),)


# The same text is read at each webhook call and each reconcile of its JobSet. A text for which it raises is not kept,
# so that those kept are within the limits.
@lru_cache(maxsize=1024)
def _parsed(text: str) -> tuple[tuple[Gang, ...], tuple[FieldError, ...]]:
    value = parse_value(text, GANGS, limits=_LIMITS)
    if not isinstance(value, list) or not value:
        return (), (FieldError(PATH, ErrorKind.INVALID, "must be a list with at least one gang, in YAML or JSON"),)
    try:
        return _ADAPTER.validate_python(value), ()
    except PydanticError as problem:
        errors = tuple(
            FieldError(
                f"{PATH}{field_error.path}",
                field_error.kind,
                f"{field_error.detail}{_meant(field_error)}",
            )
            for field_error in field_errors(problem)
        )
        return (), errors


MINIMUMS: Final = frozenset({"minAvailable", "minMember", "minMembers"})
"""What other schedulers call the number of pods with which a gang starts."""


def _meant(error: FieldError) -> str:
    """The field of an entry that is probably meant by one that there is not."""
    name = error.path.rpartition(".")[2]
    if error.kind is not ErrorKind.FORBIDDEN or error.path.count("[") > 1:
        return ""
    known = [to_camel(field) for field in Gang.model_fields]
    near = ["minCount"] if name in MINIMUMS else get_close_matches(name[:64], known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def check_members(gangs: Sequence[Gang], replicated_jobs: Iterable[str]) -> list[FieldError]:
    """Errors for names that do not exist, and for those that two entries share."""
    known = dict.fromkeys(replicated_jobs)
    listed = one_line(", ".join(f'"{value}"' for value in known), 256)
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


_ON_JOBSETS: Final = frozenset(keys_at(Place.JOBSET, KeyRole.CONFIGURATION))
_ON_TEMPLATES: Final = frozenset(keys_at(Place.TEMPLATE, KeyRole.CONFIGURATION))
_OPTION_NAME: Final = re.compile(r"[-A-Za-z0-9_]{1,64}")
_OPTION_KINDS: Final = {"extra_forbidden": ErrorKind.FORBIDDEN, "literal_error": ErrorKind.NOT_SUPPORTED}
_MOST_ERRORS: Final = 20


class GangMode(StrEnum):
    """KEP-1068 ``gangMode``; case-sensitive like every enum of Kubernetes."""

    OFF = "Off"
    GANG = "Gang"
    REPLICATED_GANG = "ReplicatedGang"


JOBSET_MODES: Final = (GangMode.OFF, GangMode.GANG)
REPLICATED_JOB_MODES: Final = (GangMode.OFF, GangMode.GANG, GangMode.REPLICATED_GANG)
_MODES: Final = {str(mode): mode for mode in REPLICATED_JOB_MODES}


class GangOptions(BaseModel):
    """The JSON object in annotation ``gangctl.dev/gang-options``; unknown keys are refused."""

    model_config = _STRICT

    topology_key: LabelKey | None = Field(
        default=None, description="All pods of a gang land on nodes with one value of this node label."
    )
    disruption: Literal["single", "all"] | None = Field(
        default=None, description="Whether preemption takes pods one by one, or the gang as a whole."
    )
    sequenced: Literal["split", "reject"] = Field(
        default="split", description="What a JobSet-wide gang with sequenced startup becomes."
    )
    composite: bool = Field(default=False, description="Sibling gangs under one CompositePodGroup (Kubernetes 1.37).")


_NO_OPTIONS: Final = GangOptions()


@dataclass(frozen=True, slots=True)
class GangConfig:
    """Modes as requested: ``replicated_jobs`` has one entry per ReplicatedJob in list order, None is unset."""

    jobset: GangMode | None
    replicated_jobs: tuple[GangMode | None, ...]
    options: GangOptions = _NO_OPTIONS
    gangs: tuple[Gang, ...] = ()
    """Entries of ``gangctl.dev/gangs``, which say more than the modes, or nothing else."""

    def gang(self, template: str) -> Gang | None:
        """The entry of ``gangctl.dev/gangs`` that a template of the Workload is made from."""
        for gang in self.gangs:
            if gang.name == template:
                return gang
        return None

    def mode_of(self, rj: ReplicatedJob) -> GangMode:
        """The mode that a ReplicatedJob has by itself, by the list of gangs, or from the JobSet."""
        for gang in self.gangs:
            if rj.name in gang.replicated_jobs:
                return GangMode.REPLICATED_GANG if gang.per_replica else GangMode.GANG
        return self.replicated_jobs[rj.index] or self.jobset or GangMode.OFF

    def topology_key(self, template: str) -> str:
        """The node label of which all pods of a gang of this template share one value; empty without one."""
        gang = self.gang(template)
        return (self.options.topology_key if gang is None else gang.topology_key) or ""

    def without_composite(self) -> GangConfig:
        """The same gangs, each of which starts by itself: on a cluster that has lost its CompositePodGroups."""
        if not self.options.composite:
            return self
        return replace(self, options=self.options.model_copy(update={"composite": False}))

    @property
    def asks_for_gangs(self) -> bool:
        """Whether any level requests a gang."""
        return (
            bool(self.gangs)
            or self.jobset is GangMode.GANG
            or any(m not in {None, GangMode.OFF} for m in self.replicated_jobs)
        )


def is_configured(jobset: JobSet) -> bool:
    """Whether any gang configuration is written on the JobSet, valid or not, ``Off`` included."""
    return (
        not _ON_JOBSETS.isdisjoint(jobset.annotations)
        or jobset.gang_config is not None
        or any(
            not _ON_TEMPLATES.isdisjoint(rj.annotations) or rj.gang_config is not None for rj in jobset.replicated_jobs
        )
    )


def _shown(value: str) -> str:
    return f'"{one_line(value, 64)}"'


def _mode(value: str, path: str, allowed: Iterable[GangMode], errors: list[FieldError]) -> GangMode | None:
    for mode in allowed:
        if mode == value:
            return mode
    names = ", ".join(f'"{mode}"' for mode in allowed)
    hint = ""
    if value == GangMode.REPLICATED_GANG:
        hint = "; ReplicatedGang is set per ReplicatedJob, on replicatedJobs[].template.metadata.annotations"
    detail = f"unsupported value {_shown(value)}, allowed (case-sensitive): {names}{hint}"
    errors.append(FieldError(path, ErrorKind.NOT_SUPPORTED, detail))
    return None


def _merge(
    annotation: tuple[str | None, str],
    field: tuple[str | None, str],
    allowed: tuple[GangMode, ...],
    errors: list[FieldError],
) -> GangMode | None:
    """One mode from two notations; each argument is (value, field path)."""
    values = [_mode(value, path, allowed, errors) for value, path in (annotation, field) if value is not None]
    if annotation[0] is not None and field[0] is not None and annotation[0] != field[0]:
        detail = f"is {_shown(annotation[0])} but {field[1]} is {_shown(field[0])}: write one of them, or both the same"
        errors.append(FieldError(annotation[1], ErrorKind.INVALID, detail))
    return values[0] if values else None


def _replicated_job_mode(rj: ReplicatedJob, errors: list[FieldError]) -> GangMode | None:
    text = rj.annotations.get(GANG_MODE)
    if text is None and rj.gang_config is None:
        return None
    if text in _MODES and rj.gang_config in {None, text}:
        return _MODES[text]  # paths are written for what is wrong
    return _merge(
        (text, rj.annotation_path(GANG_MODE)),
        (rj.gang_config, f"{rj.path}.gangConfig.gangMode"),
        REPLICATED_JOB_MODES,
        errors,
    )


def read_options(text: str, path: str, errors: list[FieldError]) -> GangOptions:
    """Parse the JSON of ``gangctl.dev/gang-options``; on errors the result has the defaults."""
    try:
        return GangOptions.model_validate_json(text)
    except PydanticError as problem:
        allowed = ", ".join(to_camel(name) for name in GangOptions.model_fields)
        for error in problem.errors(include_url=False, include_context=False, include_input=False)[:_MOST_ERRORS]:
            name = str(error["loc"][0]) if error["loc"] else ""
            # A key of JSON may be any text: one that is no name is quoted, and left out of the path.
            plain = _OPTION_NAME.fullmatch(name) is not None
            if error["type"] == "extra_forbidden":
                detail = f"unknown option{'' if plain else f' {name!r:.64}'}, allowed: {allowed}"
            else:
                detail = f"{message_of(error)} (a JSON object with: {allowed})"
            kind = _OPTION_KINDS.get(error["type"], ErrorKind.INVALID)
            errors.append(FieldError(f"{path}.{name}" if plain else path, kind, detail))
        return _NO_OPTIONS


def read_config(jobset: JobSet) -> tuple[GangConfig, tuple[FieldError, ...]]:
    """The gang configuration of a JobSet, and errors in its notation."""
    errors: list[FieldError] = []
    annotation = f"metadata.annotations[{GANG_MODE}]"
    field = "spec.gangConfig.gangMode"
    mode = _merge((jobset.annotations.get(GANG_MODE), annotation), (jobset.gang_config, field), JOBSET_MODES, errors)
    modes = tuple(_replicated_job_mode(rj, errors) for rj in jobset.replicated_jobs)
    if mode is GangMode.GANG:
        where = annotation if GANG_MODE in jobset.annotations else field
        for rj, own in zip(jobset.replicated_jobs, modes, strict=True):
            if own in {GangMode.GANG, GangMode.REPLICATED_GANG}:
                path = (
                    rj.annotation_path(GANG_MODE) if GANG_MODE in rj.annotations else f"{rj.path}.gangConfig.gangMode"
                )
                detail = (
                    f'replicated job "{rj.name}" asks for "{own}" while {where} is "Gang": '
                    'set one level only; next to a JobSet-wide gang only "Off" (leave it out) is allowed here'
                )
                errors.append(FieldError(path, ErrorKind.FORBIDDEN, detail))
    options = _NO_OPTIONS
    if (text := jobset.annotations.get(GANG_OPTIONS)) is not None:
        options = read_options(text, f"metadata.annotations[{GANG_OPTIONS}]", errors)
    config = GangConfig(mode, modes, options)
    # The list is compared with the modes, which with errors are not what was meant.
    if errors or (text := jobset.annotations.get(GANGS)) is None:
        return config, tuple(errors)
    gangs, wrong = parse_gangs(text)
    wrong = (*wrong, *check_members(gangs, [rj.name for rj in jobset.replicated_jobs]))
    if not wrong:
        config = replace(config, gangs=gangs)
        wrong = tuple(_disagreements(config, jobset))
    return (config, ()) if not wrong else (GangConfig(mode, modes, options), wrong)


def _disagreements(config: GangConfig, jobset: JobSet) -> Iterator[FieldError]:
    """Errors where the short annotations and ``gangctl.dev/gangs`` mean different gangs."""
    short = {
        (frozenset([rj.name]), mode is GangMode.REPLICATED_GANG)
        for rj, mode in zip(jobset.replicated_jobs, config.replicated_jobs, strict=True)
        if mode in {GangMode.GANG, GangMode.REPLICATED_GANG}
    }
    if config.jobset is GangMode.GANG:
        pairs = zip(jobset.replicated_jobs, config.replicated_jobs, strict=True)
        short = {(frozenset(rj.name for rj, mode in pairs if mode is None), False)}
    given = config.jobset is not None or any(mode is not None for mode in config.replicated_jobs)
    if given and short != {(frozenset(gang.replicated_jobs), gang.per_replica) for gang in config.gangs}:
        detail = f"means other gangs than {GANG_MODE} or gangConfig do: leave one of them out, or write both alike"
        yield FieldError(PATH, ErrorKind.INVALID, detail)
    for name, value in (("topologyKey", config.options.topology_key), ("disruption", config.options.disruption)):
        for index, gang in enumerate(config.gangs):
            own = gang.topology_key if name == "topologyKey" else gang.disruption
            if value is not None and own != value:
                has = f'"{own}"' if own else "not set"
                detail = f'is {has}, and "{value}" in {GANG_OPTIONS}: write it in one of them, or both alike'
                yield FieldError(f"{PATH}[{index}].{name}", ErrorKind.INVALID, detail)
