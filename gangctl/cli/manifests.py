"""JobSets among the documents that were read: checked as the API server and JobSet would, and given a namespace.

A PathwaysJob counts as the JobSet that it becomes; what is wrong with either is told at the PathwaysJob's own fields.

A file has been through no schema and no webhook. What those would refuse is refused here
too, so that a plan is never shown for a JobSet that cannot be created.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gangctl.api.documents import Document
from gangctl.api.jobset import JobSet, ReplicatedJob, read_jobset
from gangctl.api.meta import JOBSET_API_VERSION, JOBSET_GROUP
from gangctl.api.scheduling import NEWEST, Generation
from gangctl.cli.inputs import count_kinds, kind_in_words, placed, read_documents, where
from gangctl.cli.messages import InvalidInputError, note, plural
from gangctl.errors import ErrorKind, FieldError, InputError, one_line
from gangctl.gang.convert import check_words
from gangctl.gang.reasons import Notice
from gangctl.gang.validate import MAX_JOBS
from gangctl.pathways.reading.pathwaysjob import is_pathways_job
from gangctl.pathways.words import API_VERSION as PATHWAYS_API_VERSION
from gangctl.pathways.words import KIND as PATHWAYS_JOB

if TYPE_CHECKING:
    from gangctl.cli.pathways.translation import Translation

JOBSET: Final = "JobSet"
GENERATED: Final = "xxxxx"
"""Stands for the five characters that the API server appends to ``generateName``."""

_JOB_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_NO_LABEL: Final = 'is no DNS label: lower case letters, digits and "-", starting with a letter, at most 63 characters'
_POD_SUFFIX: Final = "-abcde"
_READ_AS_BOOLEAN: Final = ("a string, got False", "a string, got True")
_BARE_WORD: Final = 'in YAML a bare Off, On, Yes or No is a boolean; write it in quotes: "Off"'


@dataclass(frozen=True, slots=True)
class Manifest:
    """One JobSet of the input, and what is wrong with it as a JobSet, gangs apart."""

    document: Document
    raw: dict[str, Any]
    jobset: JobSet
    errors: tuple[FieldError, ...]
    readable: bool = True
    """Whether its types are right, so that it can be looked into further."""
    translation: Translation | None = None
    """Of a PathwaysJob, whose JobSet ``raw`` is."""

    @property
    def kind(self) -> str:
        """Of the object that a person wrote."""
        return JOBSET if self.translation is None else PATHWAYS_JOB

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What is to be said of a PathwaysJob and its rendering."""
        return () if self.translation is None else self.translation.notices

    def at_source(self, errors: Iterable[FieldError]) -> list[FieldError]:
        """Errors of the JobSet as errors of what a person wrote."""
        return list(errors) if self.translation is None else _at_source(self.translation, errors)

    @property
    def title(self) -> str:
        """Namespace and name, as a person calls it."""
        return f"{self.jobset.namespace}/{self.jobset.name}" if self.jobset.namespace else self.jobset.name


class Problems:
    """Errors of all documents, collected until the input has been read to its end."""

    def __init__(self) -> None:
        """None yet."""
        self._lines: list[str] = []
        self._objects: Counter[str] = Counter()

    def add(self, document: Document, errors: Iterable[FieldError]) -> bool:
        """Keep the errors of one document, and say whether there are any."""
        lines = [f"{where(document, error.path)}: {error}" for error in errors]
        self._lines += lines
        self._objects[kind_in_words(document)] += bool(lines)
        return bool(lines)

    def raise_if_any(self) -> None:
        """InvalidInputError with everything that was collected."""
        if self._lines:
            errors = plural(len(self._lines), "error")
            counts = sorted(self._objects.items())
            objects = " and ".join(plural(count, kind) for kind, count in counts if count)
            hint = _BARE_WORD if any(each in line for line in self._lines for each in _READ_AS_BOOLEAN) else ""
            raise InvalidInputError(self._lines, f"{errors} in {objects}", hint=hint)


def is_jobset(document: Document) -> bool:
    """Whether a document claims to be a JobSet, in whatever version."""
    group, _, _ = str(document.value.get("apiVersion", "")).partition("/")
    return group == JOBSET_GROUP and document.value.get("kind") == "JobSet"


def _is_ours(document: Document) -> bool:
    return is_jobset(document) or is_pathways_job(document.value)


def describe_others(documents: Sequence[Document]) -> str:
    """What is neither JobSet nor PathwaysJob, counted by kind; InputError when there is nothing else."""
    others = [document for document in documents if not _is_ours(document)]
    counts = count_kinds(others)
    if len(others) == len(documents):
        hint = f"expected apiVersion {JOBSET_API_VERSION}, or {PATHWAYS_API_VERSION} for a {PATHWAYS_JOB}"
        raise InputError(f"no JobSet in the input: found {counts}", hint=hint)
    return counts


def _with_namespace(raw: Mapping[str, Any], namespace: str | None) -> Iterator[FieldError]:
    metadata = raw.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, dict) else None
    if namespace and own and own != namespace:
        yield FieldError("metadata.namespace", ErrorKind.INVALID, f'is "{own}" but --namespace is "{namespace}"')


def _check_identity(raw: Mapping[str, Any], jobset: JobSet) -> Iterator[FieldError]:
    version = raw.get("apiVersion")
    if version != JOBSET_API_VERSION:
        yield FieldError("apiVersion", ErrorKind.NOT_SUPPORTED, f'is "{version}", known: {JOBSET_API_VERSION}')
    if not jobset.name and not jobset.generate_name:
        yield FieldError("metadata.name", ErrorKind.REQUIRED, "a JobSet needs a name or a generateName")
    elif jobset.name and not _JOB_NAME.fullmatch(jobset.name):
        detail = f'"{one_line(jobset.name, 80)}" ({len(jobset.name)} characters) {_NO_LABEL}'
        yield FieldError("metadata.name", ErrorKind.INVALID, detail)
    if not jobset.replicated_jobs:
        yield FieldError("spec.replicatedJobs", ErrorKind.REQUIRED, "a JobSet needs at least one replicated job")
    jobs = sum(rj.replicas for rj in jobset.replicated_jobs)
    if jobs > MAX_JOBS:
        yield FieldError("spec.replicatedJobs", ErrorKind.TOO_MANY, f"{jobs} Jobs, at most {MAX_JOBS} can be shown")


def _check_job_name(jobset: JobSet, rj: ReplicatedJob, job_spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """JobSet refuses names whose longest Job or pod is no DNS label (RFC 1035); its own name is at fault first."""
    job = f"{jobset.name}-{rj.name}-{max(0, rj.replicas - 1)}"
    names = [("Job", job)]
    if rj.completions and job_spec.get("completionMode") != "NonIndexed":
        names.append(("pod", f"{job}-{rj.completions - 1}{_POD_SUFFIX}"))
    for what, name in names:
        if not _JOB_NAME.fullmatch(name):
            detail = f'{what} name "{one_line(name, 80)}" ({len(name)} characters) {_NO_LABEL}'
            yield FieldError(f"{rj.path}.name", ErrorKind.INVALID, detail)
            return


def _check_replicated_jobs(raw: Mapping[str, Any], jobset: JobSet) -> Iterator[FieldError]:
    earlier: set[str] = set()
    for entry, rj in zip(raw["spec"]["replicatedJobs"], jobset.replicated_jobs, strict=True):
        if "name" not in entry:
            yield FieldError(f"{rj.path}.name", ErrorKind.REQUIRED, "a replicated job needs a name")
        elif rj.name in earlier:
            yield FieldError(f"{rj.path}.name", ErrorKind.DUPLICATE, f'"{rj.name}" is the name of an earlier one')
        for index, name in enumerate(rj.depends_on):
            if name not in earlier:
                detail = f'there is no earlier replicated job "{name}" to depend on'
                yield FieldError(f"{rj.path}.dependsOn[{index}].name", ErrorKind.INVALID, detail)
        earlier.add(rj.name)
        if _JOB_NAME.fullmatch(jobset.name):
            yield from _check_job_name(jobset, rj, (entry.get("template") or {}).get("spec") or {})


def check_jobset(raw: Mapping[str, Any]) -> tuple[JobSet, tuple[FieldError, ...], bool]:
    """A JobSet as it was read, what is wrong with it, and whether its types are right."""
    jobset, malformed = read_jobset(raw)
    if malformed:
        return jobset, malformed, False
    if not jobset.name and jobset.generate_name:
        jobset = replace(jobset, name=f"{jobset.generate_name}{GENERATED}")
    errors = [*_check_identity(raw, jobset), *check_words(raw)]
    if jobset.replicated_jobs:
        errors += _check_replicated_jobs(raw, jobset)
    return jobset, tuple(errors), True


def read_manifest(document: Document, namespace: str | None) -> Manifest:
    """Read and check one JobSet."""
    raw = document.value
    jobset, errors, readable = check_jobset(raw)
    if not readable:
        return Manifest(document, raw, jobset, errors, readable=False)
    errors = (*_with_namespace(raw, namespace), *errors)
    if namespace and not jobset.namespace:
        jobset, raw = replace(jobset, namespace=namespace), placed(raw, namespace)
    return Manifest(document, raw, jobset, errors)


def read_pathways_manifest(document: Document, namespace: str | None, generation: Generation = NEWEST) -> Manifest:
    """Read, check and render one PathwaysJob for an API generation, and check the JobSet."""
    from gangctl.cli.pathways.translation import field_error, translate  # noqa: PLC0415 -- JobSets do without
    from gangctl.pathways.result import Setting  # noqa: PLC0415

    raw = placed(document.value, namespace)
    found = translate(raw, setting=Setting(topology=generation.capabilities.constraints))
    errors = (*_with_namespace(raw, namespace), *map(field_error, found.problems))
    if found.rendering is None or found.jobset is None:
        return Manifest(document, raw, read_jobset({})[0], errors, readable=False, translation=found)
    return Manifest(document, dict(found.rendering.jobset), found.jobset, errors, translation=found)


def _at_source(translation: Translation, errors: Iterable[FieldError]) -> list[FieldError]:
    from gangctl.cli.pathways.translation import field_error  # noqa: PLC0415 -- JobSets do without

    return [field_error(each) for each in translation.at_source(errors)]


def read_manifests(filenames: Sequence[str], namespace: str | None, generation: Generation = NEWEST) -> list[Manifest]:
    """The JobSets in these files, and those that PathwaysJobs become in a generation; others are noted and skipped."""
    documents = read_documents(filenames)
    if others := describe_others(documents):
        note(f"skipped {others}")
    manifests = [
        read_manifest(document, namespace)
        if is_jobset(document)
        else read_pathways_manifest(document, namespace, generation)
        for document in documents
        if _is_ours(document)
    ]
    if any(manifest.jobset.generate_name and manifest.jobset.name.endswith(GENERATED) for manifest in manifests):
        note(f'names of JobSets with generateName are shown with "{GENERATED}" for what the API server will append')
    return manifests
