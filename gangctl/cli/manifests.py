"""JobSets of the input: checked like the API server and JobSet do, with a namespace, and planned with their child Jobs.

A file was not checked by a schema or a webhook. Errors are found here too, so that a plan is never shown for a JobSet
that cannot be created. A PathwaysJob counts as the JobSet that it becomes; errors of either are reported at the
PathwaysJob's own fields. Labels and annotations of child Jobs are those of JobSet 0.12 with the feature gate RestartJob
off, as the sandbox's JobSet has them.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gangctl.api.documents import TEMPLATE_HINT, Document
from gangctl.api.jobset import GENERATED, JobSet, read_jobset
from gangctl.api.meta import GANGS, JOBSET_API_VERSION, JOBSET_GROUP
from gangctl.api.objects import object_at
from gangctl.api.scheduling import NEWEST, generation_of_minor
from gangctl.apiserver.create import create
from gangctl.apiserver.jobsets import unknown_field
from gangctl.cli.inputs import STDIN, count_kinds, kind_in_words, note_skipped, placed, read_documents, where
from gangctl.cli.messages import errors_in, full_name, note, plural
from gangctl.cli.options import ClusterFlags
from gangctl.errors import ErrorKind, FieldError, InputError, one_line
from gangctl.gang import signals
from gangctl.gang.config import MINIMUMS, is_configured
from gangctl.gang.convert import check_words
from gangctl.gang.desired import plan_of
from gangctl.gang.reasons import Notice
from gangctl.gang.report import Planned, PlanReport, plan_report, requests_per_pod
from gangctl.gang.resolve import ClusterRules
from gangctl.gang.validate import MAX_JOBS
from gangctl.kueue.names import unread_queues
from gangctl.migration.draft import NAMES, no_jobset, systems_seen
from gangctl.pathways.words import API_VERSION as PATHWAYS_API_VERSION
from gangctl.pathways.words import KIND as PATHWAYS_JOB
from gangctl.pathways.words import is_pathways_job

if TYPE_CHECKING:
    from gangctl.cli.pathways.subjects import Translation


def _check_identity(raw: Mapping[str, Any], jobset: JobSet) -> Iterator[FieldError]:
    version = raw.get("apiVersion")
    if version != JOBSET_API_VERSION:
        yield FieldError("apiVersion", ErrorKind.NOT_SUPPORTED, f'is "{version}", known: {JOBSET_API_VERSION}')
    if not jobset.name and not jobset.generate_name:
        yield FieldError("metadata.name", ErrorKind.REQUIRED, "a JobSet needs a name or a generateName")
    if not jobset.replicated_jobs:
        yield FieldError("spec.replicatedJobs", ErrorKind.REQUIRED, "a JobSet needs at least one replicated job")
    for rj in jobset.replicated_jobs:
        if not rj.name:  # an API server takes an empty name, and a gang has none
            yield FieldError(f"{rj.path}.name", ErrorKind.REQUIRED, "a replicated job needs a name")
    if jobset.jobs > MAX_JOBS:
        detail = f"{jobset.jobs} Jobs, at most {MAX_JOBS} can be shown"
        yield FieldError("spec.replicatedJobs", ErrorKind.TOO_MANY, detail)


@dataclass(frozen=True, slots=True)
class Checked:
    """A JobSet as it was read, and as the API server stores it."""

    jobset: JobSet
    raw: dict[str, Any]
    errors: tuple[FieldError, ...]
    readable: bool = True
    """Whether its types are valid."""
    unknown: tuple[str, ...] = ()
    """Paths of fields that the API server drops."""


def check_jobset(raw: dict[str, Any]) -> Checked:
    """Take a JobSet through what an API server with JobSet does."""
    jobset, malformed = read_jobset(raw)
    errors = [*malformed]
    if not malformed:
        errors += [*_check_identity(raw, jobset), *check_words(raw), *requests_per_pod(raw)[1]]
    jobset = jobset.named
    # The rules of the API server and of JobSet are known for this version alone.
    if raw.get("apiVersion") != JOBSET_API_VERSION:
        return Checked(jobset, raw, tuple(errors), readable=not malformed)
    created = create(raw)
    # The keys of maps are in brackets in one, and after a dot in the other.
    named = {error.path.replace("[", ".").replace("]", "") for error in errors}
    errors += [error for error in created.errors if error.path.replace("[", ".").replace("]", "") not in named]
    stored = raw if created.refused else created.obj
    return Checked(jobset, stored, tuple(errors), readable=not malformed, unknown=created.unknown)


JOBSET: Final = "JobSet"
_READ_AS_BOOLEAN: Final = ("a string, got false", "a string, got true")
_PLAN: Final = "| gangctl plan -f -"
TRAINJOB: Final = "TrainJob"
_MOST_KINDS: Final = 4
_BARE_WORD: Final = 'in YAML a bare Off, On, Yes or No is a boolean; write it in quotes: "Off"'


@dataclass(frozen=True, slots=True)
class Manifest:
    """One JobSet of the input, and its errors as a JobSet, without gangs."""

    document: Document
    raw: dict[str, Any]
    jobset: JobSet
    errors: tuple[FieldError, ...]
    readable: bool = True
    """Whether its types are valid, so that it can be checked further."""
    translation: Translation | None = None
    """Of a PathwaysJob, whose JobSet ``raw`` is."""

    @property
    def kind(self) -> str:
        """Of the object in the input."""
        return JOBSET if self.translation is None else PATHWAYS_JOB

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Notices about a PathwaysJob and its rendering."""
        return () if self.translation is None else self.translation.notices

    def at_source(self, errors: Iterable[FieldError]) -> list[FieldError]:
        """Errors of the JobSet as errors of the input object."""
        if self.translation is None:
            return list(errors)
        from gangctl.cli.pathways.subjects import field_error  # noqa: PLC0415 -- JobSets do without

        return [field_error(error) for error in self.translation.at_source(errors)]

    @property
    def title(self) -> str:
        """Namespace and name, for messages."""
        return full_name(self.jobset.namespace, self.jobset.name)


class Problems:
    """Errors of all documents, collected until the end of the input."""

    def __init__(self) -> None:
        """Start without errors."""
        self._lines: list[str] = []
        self._sources: dict[str, None] = {}
        self._objects: Counter[str] = Counter()

    def add(self, document: Document, errors: Iterable[FieldError]) -> bool:
        """Add the errors of one document, and return whether there are any."""
        lines = [f"{where(document, error.path)}: {error}" for error in errors]
        if lines:
            self._lines += lines
            self._sources[document.source] = None
            self._objects[kind_in_words(document)] += 1
        return bool(lines)

    def raise_if_any(self) -> None:
        """InvalidInputError with all collected errors."""
        if self._lines:
            counts = sorted(self._objects.items())
            objects = " and ".join(plural(count, kind) for kind, count in counts)
            hint = next(filter(None, map(_kustomization_hint, self._sources)), "")
            hint = _BARE_WORD if any(word in line for line in self._lines for word in _READ_AS_BOOLEAN) else hint
            hint = TEMPLATE_HINT if any("{{" in line for line in self._lines) else hint
            raise errors_in(objects, self._lines, hint=hint)


_KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""Names of the file of a kustomization, which may be without apiVersion and kind."""


def _kustomize(source: str) -> str:
    """The command for the kustomization whose directory has this file."""
    directory = "DIRECTORY" if source == STDIN else shlex.quote(str(Path(source).parent))
    return f"kubectl kustomize {directory} {_PLAN}"


def _kustomization_hint(source: str) -> str:
    """What to do with a file of a kustomization; empty for other sources."""
    if source == STDIN or "://" in source:
        return ""
    is_there = any(Path(source).with_name(name).is_file() for name in _KUSTOMIZATIONS)
    return f"a patch of a kustomization is no whole object: {_kustomize(source)}" if is_there else ""


def _way_out(document: Document) -> str:
    """What to do with an object that has JobSets inside, or that stands in the place of one; empty for others."""
    value = document.value
    file = "FILE" if document.source == STDIN else shlex.quote(document.source)
    group = str(value.get("apiVersion", "")).partition("/")[0]
    if group == "template.openshift.io":
        return f"a Template of OpenShift has its objects inside: oc process --local -f {file} {_PLAN}"
    if group == "kustomize.config.k8s.io":
        return f"a Kustomization names its objects: {_kustomize(document.source)}"
    if "kind" not in value and "type" in value and isinstance(value.get("object"), dict):
        return f"an event of a watch has its object inside: jq .object {file} {_PLAN}"
    return no_jobset(value)


def is_jobset(document: Document) -> bool:
    """Whether a document is a JobSet, in any version."""
    group, _, _ = str(document.value.get("apiVersion", "")).partition("/")
    return group == JOBSET_GROUP and document.value.get("kind") == "JobSet"


def _is_ours(document: Document) -> bool:
    return is_jobset(document) or is_pathways_job(document.value)


def after_trainjob(command: str) -> str:
    """How to ask a command about the JobSet of a TrainJob, which only its controller makes."""
    return (
        f"a {TRAINJOB} becomes a JobSet of its name in the cluster: create it with spec.suspend true, then "
        f"kubectl get jobset NAME -o yaml | gangctl {command} -f -"
    )


def require_jobsets(documents: Sequence[Document], wanted: Callable[[Document], bool] = _is_ours) -> None:
    """InputError if none of the objects is a JobSet or, by default, a PathwaysJob."""
    if not any(map(wanted, documents)):
        pathways = f", or {PATHWAYS_API_VERSION} for a {PATHWAYS_JOB}" if wanted is _is_ours else ""
        hint = f"expected apiVersion {JOBSET_API_VERSION}{pathways}"
        kinds = {str(document.value.get("kind")) for document in documents}
        if any(map(_is_ours, documents)):
            hint = f"gangctl pathways render prints the JobSet that a {PATHWAYS_JOB} becomes"
        elif TRAINJOB in kinds:
            hint = after_trainjob("plan")
        elif any(kind.lower() == "jobset" for kind in kinds):
            hint = f"did you mean kind JobSet, and apiVersion {JOBSET_API_VERSION}?"
        elif others := dict.fromkeys(filter(None, map(_way_out, documents))):
            hint = "; ".join([*others][:_MOST_KINDS])
        raise InputError(f"no JobSet in the input: found {count_kinds(documents, groups=True)}", hint=hint)


def _with_namespace(raw: Mapping[str, Any], namespace: str | None) -> Iterator[FieldError]:
    metadata = raw.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, dict) else None
    if namespace and own and own != namespace:
        yield FieldError("metadata.namespace", ErrorKind.INVALID, f'is "{own}" but --namespace is "{namespace}"')


_SHOWN: Final = 256
_UNREMARKED: Final = frozenset({"creationTimestamp", "gangConfig", "scheduling", "workloadRef"})
"""Unknown fields without a note: Go writes the first into every template, and gangctl reads the others."""


_FEWER: Final = f"; a gang that starts with fewer than all of its pods has minCount in annotation {GANGS}"


def read_manifest(document: Document, namespace: str | None) -> Manifest:
    """Read and check one JobSet."""
    # The names of what JobSet makes of it may have the namespace.
    checked = check_jobset(placed(document.value, namespace))
    jobset, raw = checked.jobset, checked.raw
    wrong = tuple(error.path for error in checked.errors)
    for path in checked.unknown:
        # A field with an error needs no note beside it.
        if path.rpartition(".")[2] not in _UNREMARKED and not path.startswith(wrong):
            hint = _FEWER if path.rpartition(".")[2] in MINIMUMS else ""
            note(f"{where(document, path)}: {one_line(path, _SHOWN)}: {unknown_field(path)}{hint}")
    if not checked.readable:
        return Manifest(document, raw, jobset, checked.errors, readable=False)
    for path, meant in unread_queues(object_at(raw, "metadata")):
        text = f"{one_line(path, _SHOWN)}: Kueue does not read it, so that the JobSet names no queue"
        note(f"{where(document, path)}: {text}; did you mean {meant}?")
    return Manifest(document, raw, jobset, (*_with_namespace(raw, namespace), *checked.errors))


def read_pathways_manifest(document: Document, namespace: str | None, rules: ClusterRules) -> Manifest:
    """Read, check and render one PathwaysJob for a cluster or a minor, and check the JobSet."""
    from gangctl.cli.pathways.subjects import field_error, translate  # noqa: PLC0415 -- JobSets do without
    from gangctl.pathways.reading import read_pathways_job  # noqa: PLC0415
    from gangctl.pathways.result import setting_for  # noqa: PLC0415

    raw = placed(document.value, namespace)
    translation = translate(read_pathways_job(raw), setting_for(rules))
    errors = (*_with_namespace(raw, namespace), *map(field_error, translation.problems))
    if translation.rendering is None or translation.jobset is None:
        return Manifest(document, raw, read_jobset({})[0], errors, readable=False, translation=translation)
    return Manifest(document, dict(translation.rendering.jobset), translation.jobset, errors, translation=translation)


def other_schedulers(document: Document) -> Iterator[str]:
    """Notes on gangs of a JobSet that are for other schedulers."""
    for system, (what, path) in systems_seen(document.value).items():
        hint = f"gangctl convert --to annotations --from {system} makes its gang one of gangctl"
        yield f"{where(document, path)}: {what} is for {NAMES[system].title}, and stays: {hint}"


def read_manifests(filenames: Sequence[str], namespace: str | None, rules: ClusterRules) -> list[Manifest]:
    """The JobSets in these files, and those that PathwaysJobs become; others are noted and skipped."""
    documents = read_documents(filenames)
    require_jobsets(documents)
    note_skipped(document for document in documents if not _is_ours(document))
    manifests = [
        read_manifest(document, namespace)
        if is_jobset(document)
        else read_pathways_manifest(document, namespace, rules)
        for document in documents
        if _is_ours(document)
    ]
    for manifest in manifests:
        if manifest.readable and not is_configured(manifest.jobset):
            for text in other_schedulers(manifest.document):
                note(text)
    if any(manifest.jobset.generate_name and manifest.jobset.name.endswith(GENERATED) for manifest in manifests):
        note(f'names of JobSets with generateName are shown with "{GENERATED}" for what the API server will append')
    return manifests


@dataclass(frozen=True, slots=True)
class PlannedManifest:
    """A JobSet of the input, the decisions about it, and the report."""

    manifest: Manifest
    planned: Planned
    report: PlanReport


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """Options of the commands that plan. Without ``kube`` a cluster that is given answers."""

    filenames: Sequence[str]
    namespace: str | None
    kube: str | None
    cluster: ClusterFlags
    gang_schedulers: Sequence[str] = ()

    @property
    def live(self) -> bool:
        """Whether the cluster is asked."""
        return self.kube is None and self.cluster.given

    def rules(self, found: ClusterRules) -> ClusterRules:
        """Those of a cluster or a minor, with the schedulers of the options."""
        return replace(found, gang_schedulers=frozenset(self.gang_schedulers)) if self.gang_schedulers else found


def plan_manifests(question: PlanQuestion, uid: str | None = None, *, sizes: bool = False) -> list[PlannedManifest]:
    """Plan every JobSet and PathwaysJob in these files; InvalidInputError with all errors of all of them.

    Of a cluster that is asked they have its rules, and new ones without a ``uid`` the defaults that its policies give
    them; with ``sizes`` pods are noted that are larger than any of its nodes.
    """
    problems = Problems()
    manifests = []
    if question.live:
        from gangctl.cli.clustermanifests import read_beside_cluster  # noqa: PLC0415 -- 400 ms that files do without

        rules, read = read_beside_cluster(question, with_defaults=uid is None, sizes=sizes)
    else:
        minor = question.kube and generation_of_minor(question.kube)
        rules = question.rules(ClusterRules(minor or NEWEST))
        read = read_manifests(question.filenames, question.namespace, rules)
    for manifest in read:
        errors = list(manifest.errors)
        if manifest.readable:
            accepted = bool(manifest.jobset.uid)
            plan, notices, refused = plan_of(manifest.jobset, rules, accepted=accepted, unstamped=True, uid=uid)
            errors += manifest.at_source(refused)
        if problems.add(manifest.document, errors):
            continue
        # The notices of a rendered PathwaysJob have them already.
        lost = signals.notices(manifest.raw) if plan is not None and manifest.translation is None else ()
        planned = Planned(manifest.jobset, plan, (*manifest.notices, *notices, *lost), rules.generation)
        report, _ = plan_report(manifest.raw, planned)
        manifests.append(PlannedManifest(manifest, planned, report))
    problems.raise_if_any()
    return manifests
