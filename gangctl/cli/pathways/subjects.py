"""The PathwaysJobs of a command, of files or the one that flags describe, each with its JobSet.

Errors of both are reported at the user's fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pydantic.alias_generators import to_snake

from gangctl.api.documents import Document
from gangctl.api.fieldpath import FieldPath
from gangctl.api.jobset import JobSet
from gangctl.api.objects import object_at, text_at
from gangctl.api.scheduling import NEWEST, generation_of_minor
from gangctl.cli.inputs import count_kinds, note_skipped, placed, read_documents, where
from gangctl.cli.manifests import check_jobset
from gangctl.cli.messages import errors_in, full_name, note
from gangctl.errors import FieldError, InputError, one_line
from gangctl.fit.floor import NodeShape
from gangctl.gang.reasons import Notice
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.pathways.draft import check_head
from gangctl.pathways.flags.table import Flags, kebab
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.problems import InvalidReason, Problem
from gangctl.pathways.reading import Reading, read_pathways_job
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Origin, OriginKind, Profile, Rendering, RenderingInputs, setting_for
from gangctl.pathways.words import API_VERSION, KIND, OPTIONS, is_pathways_job

if TYPE_CHECKING:
    from gangctl.cli.pathways.cluster import ClusterFacts


_WRITTEN: Final = frozenset({OriginKind.FIELD, OriginKind.FLAG})
_DETAIL: Final = 900


@dataclass(frozen=True, slots=True)
class Translation:
    """The PathwaysJob, its JobSet, and all problems and notices.

    ``rendering`` and ``jobset`` are None if nothing could be rendered; with problems they serve only to find more
    problems.
    """

    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    job: PathwaysJob | None = None
    rendering: Rendering | None = None
    jobset: JobSet | None = None
    """The rendering as it was read back, None where its types are wrong."""

    def at_source(self, errors: Iterable[FieldError]) -> tuple[Problem, ...]:
        """Errors of the JobSet as problems of the fields, or flags, of their origin."""
        origins = self.rendering.origins if self.rendering is not None else {}
        return tuple(Problem(InvalidReason.INVALID_JOBSET, _at_source(error, origins)) for error in errors)

    def planned(self, rules: ClusterRules) -> Translation:
        """The same with errors of the plan: impossible gangs."""
        if self.problems or self.rendering is None or self.jobset is None:
            return self
        resolution = resolve(self.jobset, rules)
        notices = tuple(dict.fromkeys((*self.notices, *resolution.notices)))
        return replace(self, problems=self.at_source(resolution.errors), notices=notices)


def translate(reading: Reading, setting: RenderingInputs) -> Translation:
    """The result of reading an object or flags, and its JobSet."""
    if reading.job is None:
        return Translation(reading.problems, reading.notices)
    rendering = render(reading.job, setting)
    checked = check_jobset(dict(rendering.jobset))
    notices = tuple(dict.fromkeys((*reading.notices, *rendering.notices)))
    translation = Translation((), notices, reading.job, rendering, checked.jobset if checked.readable else None)
    return replace(translation, problems=translation.at_source(checked.errors))


def field_error(problem: Problem) -> FieldError:
    """A problem as an error of a field: its reason comes after what is allowed."""
    error = problem.error
    return FieldError(error.path, error.kind, f"{one_line(error.detail, _DETAIL)} ({problem.reason})")


def _at_source(error: FieldError, origins: Mapping[str, Origin]) -> FieldError:
    place = _written_at(error.path, origins)
    if not place:
        origin = origins.get(error.path)
        option = f" (option {origin.place})" if origin is not None and origin.kind is OriginKind.OPTION else ""
        return FieldError(f"the JobSet's {error.path}", error.kind, f"{error.detail}{option}")
    detail = error.detail if place == error.path else f"{one_line(error.detail, _DETAIL)} (the JobSet's {error.path})"
    return FieldError(place, error.kind, detail)


def _written_at(path: str, origins: Mapping[str, Origin]) -> str:
    """The field or flag that a field of the JobSet, or everything in it, comes from; empty where there is no such one.

    An absent field has the origin of its nearest existing parent.
    """
    try:
        steps = FieldPath.parse(path).steps
    except InputError:  # a key that field paths cannot express
        return ""
    for length in range(len(steps), 0, -1):
        around = str(FieldPath(steps[:length]))
        inside = [origin for leaf, origin in origins.items() if lies_in(leaf, around)]
        if inside:
            return _shared(inside) if all(item.kind in _WRITTEN for item in inside) else ""
    return ""


def lies_in(path: str, around: str) -> bool:
    """Whether a field is another one, or a part of it."""
    return path == around or path.startswith((f"{around}.", f"{around}["))


def _shared(origins: Iterable[Origin]) -> str:
    """The innermost field around the places of all origins."""
    first, *others = [FieldPath.parse(origin.place).steps for origin in origins]
    length = len(first)
    for steps in others:
        same = (index for index, (one, other) in enumerate(zip(first, steps, strict=False)) if one != other)
        length = min(length, len(steps), next(same, length))
    return str(FieldPath(first[:length]))


_FLAG: Final = "--"
_OPTION: Final = re.compile(rf"metadata\.annotations\[{re.escape(OPTIONS)}\]\.(?P<name>\w+)")


@dataclass(frozen=True, slots=True)
class RenderedSubject:
    """One PathwaysJob, its rendering, and its source: ``document`` is None for flags."""

    name: str
    namespace: str
    translation: Translation
    document: Document | None = None

    @property
    def title(self) -> str:
        """Namespace and name, for messages."""
        return full_name(self.namespace, self.name)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems."""
        return self.translation.problems

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All notices."""
        return self.translation.notices

    @property
    def rendering(self) -> Rendering:
        """The JobSet and related data, of a PathwaysJob without problems."""
        rendering = self.translation.rendering
        assert rendering is not None and not self.problems  # noqa: S101, PT018 -- for mypy; who has problems is refused
        return rendering

    def line(self, problem: Problem) -> str:
        """A problem with its position, as compilers print it; a flag is its own position."""
        if self.document is None or problem.error.path.startswith(_FLAG):
            return str(problem)
        return f"{where(self.document, problem.error.path)}: {problem}"


@dataclass(frozen=True, slots=True)
class WantedSubjects:
    """Options: PathwaysJobs of files, or flags instead."""

    documents: tuple[Document, ...]
    flags: Flags | None
    namespace: str | None
    options: PathwaysOptions
    profile: Profile
    kube: str | None = None
    """The minor to render for, instead of the cluster's."""
    gangs: bool = True
    """Whether the cluster may have gangs."""

    @property
    def namespaces(self) -> set[str]:
        """Where they would be created; empty stands for the context's."""
        named = {_metadata(document, "namespace") or self.namespace or "" for document in self.documents}
        return named or {self.namespace or ""}

    def subjects(self, facts: ClusterFacts | None) -> list[RenderedSubject]:
        """Each of them rendered, for a minor of Kubernetes, or for a cluster if there is one.

        Problems are in the subject.
        """
        found_rules = ClusterRules() if facts is None else facts.rules
        if self.kube is not None:
            found_rules = ClusterRules(generation_of_minor(self.kube) or NEWEST)
        rules = found_rules or ClusterRules()
        setting = setting_for(rules, self.profile, gangs=self.gangs and found_rules is not None)
        nodes = facts.nodes if facts is not None else None
        if self.flags is not None:
            from gangctl.pathways.flags.pathwaysjob import read_flags  # noqa: PLC0415 -- files do without

            reading = read_flags(self.flags, self.profile, self.options)
            translation = translate(reading, setting).planned(rules)
            subjects = [_subject(self.flags.workload or "", self.namespace, translation, None)]
        else:
            subjects = [self._of(document, setting, rules) for document in self.documents]
        return [_on_nodes(subject, nodes) for subject in subjects]

    def _of(self, document: Document, setting: RenderingInputs, rules: ClusterRules) -> RenderedSubject:
        own = _metadata(document, "namespace")
        if self.namespace and own and own != self.namespace:
            place = where(document, "metadata.namespace")
            raise InputError(f'{place}: metadata.namespace: is "{own}" but --namespace is "{self.namespace}"')
        raw = placed(document.value, self.namespace)
        translation = translate(read_pathways_job(raw, self.options), setting).planned(rules)
        problems = tuple(self._of_flag(problem, document) for problem in translation.problems)
        translation = replace(translation, problems=problems)
        return _subject(_metadata(document, "name"), own or self.namespace, translation, document)

    def _of_flag(self, found: Problem, document: Document) -> Problem:
        """A problem of an option that a flag has chosen and not the annotation, as one of the flag."""
        match = _OPTION.match(found.error.path)
        if match is None or match["name"] not in self.options.as_json():
            return found
        try:
            own = json.loads(document.value["metadata"]["annotations"][OPTIONS])
        except (KeyError, TypeError, ValueError):
            own = {}
        if match["name"] in own:
            return found
        return replace(found, error=replace(found.error, path=kebab(to_snake(match["name"]))))


def pathways_jobs(filenames: Sequence[str]) -> tuple[Document, ...]:
    """The PathwaysJobs of files; other objects are skipped with a note, and InputError where there is nothing else."""
    documents = read_documents(filenames)
    jobs = tuple(document for document in documents if is_pathways_job(document.value))
    if not jobs:
        hint = f"expected apiVersion {API_VERSION}"
        raise InputError(f"no {KIND} in the input: found {count_kinds(documents)}", hint=hint)
    note_skipped(document for document in documents if document not in jobs)
    return jobs


def _metadata(document: Document, key: str) -> str:
    return text_at(object_at(document.value, "metadata"), key)


def _subject(name: str, namespace: str | None, translation: Translation, document: Document | None) -> RenderedSubject:
    if translation.job is not None:  # which has one where the API server is asked to make it
        name = translation.job.name
    return RenderedSubject(name, namespace or "", translation, document)


def _on_nodes(subject: RenderedSubject, nodes: Iterable[NodeShape] | None) -> RenderedSubject:
    """Add notices about nodes for the head."""
    translation = subject.translation
    if nodes is None or translation.rendering is None or translation.problems:
        return subject
    if (notice := check_head(translation.rendering, nodes)) is None:
        return subject
    return replace(subject, translation=replace(translation, notices=(*translation.notices, notice)))


def refuse(subjects: Sequence[RenderedSubject]) -> None:
    """InputError with all problems of all of them, if any."""
    wrong = [subject for subject in subjects if subject.problems]
    lines = [subject.line(problem) for subject in wrong for problem in subject.problems]
    if not lines:
        return
    if len(lines) == 1 and wrong[0].document is None:
        raise InputError(lines[0])
    objects = "the flags" if wrong[0].document is None else f"{len(wrong)} {KIND}{'' if len(wrong) == 1 else 's'}"
    raise errors_in(objects, lines)


def refuse_nameless(subjects: Iterable[RenderedSubject]) -> None:
    """InputError for a PathwaysJob whose name the API server would make: addresses in its JobSet hold the name."""
    for subject in subjects:
        if subject.document is not None and not _metadata(subject.document, "name"):
            place = where(subject.document, "metadata.generateName")
            hint = "validate and why do without"
            raise InputError(f"{place}: metadata.name: a JobSet that can be created needs a name", hint=hint)


def say_notices(subjects: Iterable[RenderedSubject]) -> bool:
    """Print notices on stderr, and return whether any of them is a warning."""
    warned = False
    for subject in subjects:
        for notice in subject.notices:
            note(f"{subject.title}: {notice.reason}: {notice.message}")
            warned |= notice.is_warning
    return warned
