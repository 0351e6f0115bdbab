"""JobSets among the documents that were read: checked as the API server and JobSet would, and given a namespace.

A file has been through no schema and no webhook. What those would refuse is refused here
too, so that a plan is never shown for a JobSet that cannot be created.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gangctl.api.documents import Document
from gangctl.api.jobset import JobSet, ReplicatedJob, read_jobset
from gangctl.api.meta import JOBSET_API_VERSION, JOBSET_GROUP
from gangctl.cli.inputs import read_documents
from gangctl.cli.messages import InvalidInputError, note
from gangctl.errors import ErrorKind, FieldError, InputError
from gangctl.gang.convert import check_words
from gangctl.gang.validate import MAX_JOBS

GENERATED: Final = "xxxxx"
"""Stands for the five characters that the API server appends to ``generateName``."""

_JOB_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_POD_SUFFIX: Final = "-abcde"
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

    @property
    def title(self) -> str:
        """Namespace and name, as a person calls it."""
        return f"{self.jobset.namespace}/{self.jobset.name}" if self.jobset.namespace else self.jobset.name


class Problems:
    """Errors of all documents, collected until the input has been read to its end."""

    def __init__(self) -> None:
        """None yet."""
        self._lines: list[str] = []
        self._objects = 0

    def add(self, document: Document, errors: Iterable[FieldError]) -> bool:
        """Keep the errors of one document, and say whether there are any."""
        lines = [f"{_place(document, error.path)}: {error}" for error in errors]
        self._lines += lines
        self._objects += bool(lines)
        return bool(lines)

    def raise_if_any(self) -> None:
        """InvalidInputError with everything that was collected."""
        if self._lines:
            errors = "1 error" if len(self._lines) == 1 else f"{len(self._lines)} errors"
            objects = "1 JobSet" if self._objects == 1 else f"{self._objects} JobSets"
            hint = _BARE_WORD if any(line.endswith(("got False", "got True")) for line in self._lines) else ""
            raise InvalidInputError(self._lines, f"{errors} in {objects}", hint=hint)


def _place(document: Document, path: str) -> str:
    try:
        return document.where(path)
    except InputError:  # a key that the notation of paths cannot carry
        return document.where()


def is_jobset(document: Document) -> bool:
    """Whether a document claims to be a JobSet, in whatever version."""
    group, _, _ = str(document.value.get("apiVersion", "")).partition("/")
    return group == JOBSET_GROUP and document.value.get("kind") == "JobSet"


def _kind(document: Document) -> str:
    return str(document.value.get("kind") or "object without kind")


def describe_others(documents: Sequence[Document]) -> str:
    """What is no JobSet, counted by kind; InputError when there is nothing else."""
    kinds = Counter(_kind(document) for document in documents if not is_jobset(document))
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    if kinds.total() == len(documents):
        raise InputError(f"no JobSet in the input: found {counts}", hint=f"expected apiVersion {JOBSET_API_VERSION}")
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
    if not jobset.replicated_jobs:
        yield FieldError("spec.replicatedJobs", ErrorKind.REQUIRED, "a JobSet needs at least one replicated job")
    jobs = sum(rj.replicas for rj in jobset.replicated_jobs)
    if jobs > MAX_JOBS:
        yield FieldError("spec.replicatedJobs", ErrorKind.TOO_MANY, f"{jobs} Jobs, at most {MAX_JOBS} can be shown")


def _check_job_name(jobset: JobSet, rj: ReplicatedJob, job_spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """JobSet refuses names whose longest Job or pod is no DNS label."""
    job = f"{jobset.name}-{rj.name}-{max(0, rj.replicas - 1)}"
    names = [("Job", job)]
    if rj.completions and job_spec.get("completionMode") != "NonIndexed":
        names.append(("pod", f"{job}-{rj.completions - 1}{_POD_SUFFIX}"))
    for what, name in names:
        if not _JOB_NAME.fullmatch(name):
            detail = (
                f'{what} name "{name}" ({len(name)} characters) is no DNS label: lower case letters, digits and "-", '
                "starting with a letter, at most 63 characters"
            )
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
        if jobset.name:
            yield from _check_job_name(jobset, rj, (entry.get("template") or {}).get("spec") or {})


def read_manifest(document: Document, namespace: str | None) -> Manifest:
    """Read and check one JobSet."""
    raw = document.value
    jobset, malformed = read_jobset(raw)
    if malformed:
        return Manifest(document, raw, jobset, malformed, readable=False)
    if not jobset.name and jobset.generate_name:
        jobset = replace(jobset, name=f"{jobset.generate_name}{GENERATED}")
    errors = [*_with_namespace(raw, namespace), *_check_identity(raw, jobset), *check_words(raw)]
    if jobset.replicated_jobs:
        errors += _check_replicated_jobs(raw, jobset)
    if namespace and not jobset.namespace:
        jobset = replace(jobset, namespace=namespace)
        raw = {**raw, "metadata": {**(raw.get("metadata") or {}), "namespace": namespace}}
    return Manifest(document, raw, jobset, tuple(errors))


def read_manifests(filenames: Sequence[str], namespace: str | None) -> list[Manifest]:
    """The JobSets in these files; other kinds are skipped with a note."""
    documents = read_documents(filenames)
    if others := describe_others(documents):
        note(f"skipped {others}")
    manifests = [read_manifest(document, namespace) for document in documents if is_jobset(document)]
    if any(manifest.jobset.generate_name and manifest.jobset.name.endswith(GENERATED) for manifest in manifests):
        note(f'names of JobSets with generateName are shown with "{GENERATED}" for what the API server will append')
    return manifests
