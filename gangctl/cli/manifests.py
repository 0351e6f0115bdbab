"""JobSets of the input: checked like the API server and JobSet do, with a namespace, and planned.

A PathwaysJob counts as the JobSet that it becomes; errors of either are reported at the PathwaysJob's own fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gangctl.api.documents import Document
from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.meta import JOBSET_API_VERSION, JOBSET_GROUP
from gangctl.api.scheduling import NEWEST, generation_of_minor
from gangctl.cli.inputs import count_kinds, kind_in_words, placed, read_documents, where
from gangctl.cli.jobsetchecks import GENERATED, check_jobset
from gangctl.cli.messages import InvalidInputError, note, plural
from gangctl.cli.options import ClusterFlags
from gangctl.errors import ErrorKind, FieldError, InputError
from gangctl.gang.plan import make_plan
from gangctl.gang.reasons import Notice
from gangctl.gang.report import Planned, PlanReport, plan_report, requests_per_pod
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.pathways.reading.pathwaysjob import is_pathways_job
from gangctl.pathways.words import API_VERSION as PATHWAYS_API_VERSION
from gangctl.pathways.words import KIND as PATHWAYS_JOB

if TYPE_CHECKING:
    from gangctl.cli.pathways.translation import Translation


JOBSET: Final = "JobSet"
_READ_AS_BOOLEAN: Final = ("a string, got false", "a string, got true")
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
        return list(errors) if self.translation is None else _at_source(self.translation, errors)

    @property
    def title(self) -> str:
        """Namespace and name, for messages."""
        return f"{self.jobset.namespace}/{self.jobset.name}" if self.jobset.namespace else self.jobset.name


class Problems:
    """Errors of all documents, collected until the end of the input."""

    def __init__(self) -> None:
        """Start without errors."""
        self._lines: list[str] = []
        self._objects: Counter[str] = Counter()

    def add(self, document: Document, errors: Iterable[FieldError]) -> bool:
        """Add the errors of one document, and return whether there are any."""
        lines = [f"{where(document, error.path)}: {error}" for error in errors]
        self._lines += lines
        self._objects[kind_in_words(document)] += bool(lines)
        return bool(lines)

    def raise_if_any(self) -> None:
        """InvalidInputError with all collected errors."""
        if self._lines:
            errors = plural(len(self._lines), "error")
            counts = sorted(self._objects.items())
            objects = " and ".join(plural(count, kind) for kind, count in counts if count)
            hint = _BARE_WORD if any(each in line for line in self._lines for each in _READ_AS_BOOLEAN) else ""
            raise InvalidInputError(self._lines, f"{errors} in {objects}", hint=hint)


def is_jobset(document: Document) -> bool:
    """Whether a document is a JobSet, in any version."""
    group, _, _ = str(document.value.get("apiVersion", "")).partition("/")
    return group == JOBSET_GROUP and document.value.get("kind") == "JobSet"


def _is_ours(document: Document) -> bool:
    return is_jobset(document) or is_pathways_job(document.value)


def describe_others(documents: Sequence[Document]) -> str:
    """Other objects than JobSets and PathwaysJobs, counted by kind; InputError if there are only these."""
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


def read_pathways_manifest(document: Document, namespace: str | None, rules: ClusterRules | None = None) -> Manifest:
    """Read, check and render one PathwaysJob for a cluster or a minor, and check the JobSet."""
    from gangctl.cli.pathways.translation import field_error, translate  # noqa: PLC0415 -- JobSets do without
    from gangctl.pathways.result import setting_for  # noqa: PLC0415

    raw = placed(document.value, namespace)
    found = translate(raw, setting=setting_for(rules or ClusterRules()))
    errors = (*_with_namespace(raw, namespace), *map(field_error, found.problems))
    if found.rendering is None or found.jobset is None:
        return Manifest(document, raw, read_jobset({})[0], errors, readable=False, translation=found)
    return Manifest(document, dict(found.rendering.jobset), found.jobset, errors, translation=found)


def _at_source(translation: Translation, errors: Iterable[FieldError]) -> list[FieldError]:
    from gangctl.cli.pathways.translation import field_error  # noqa: PLC0415 -- JobSets do without

    return [field_error(each) for each in translation.at_source(errors)]


def read_manifests(
    filenames: Sequence[str], namespace: str | None, rules: ClusterRules | None = None
) -> list[Manifest]:
    """The JobSets in these files, and those that PathwaysJobs become; others are noted and skipped."""
    documents = read_documents(filenames)
    if others := describe_others(documents):
        note(f"skipped {others}")
    manifests = [
        read_manifest(document, namespace)
        if is_jobset(document)
        else read_pathways_manifest(document, namespace, rules)
        for document in documents
        if _is_ours(document)
    ]
    if any(manifest.jobset.generate_name and manifest.jobset.name.endswith(GENERATED) for manifest in manifests):
        note(f'names of JobSets with generateName are shown with "{GENERATED}" for what the API server will append')
    return manifests


@dataclass(frozen=True, slots=True)
class PlannedManifest:
    """A JobSet of the input, the decisions about it, and the report."""

    manifest: Manifest
    planned: Planned
    report: PlanReport


def cluster_rules(kube: str | None, cluster: ClusterFlags, gang_schedulers: Sequence[str] = ()) -> ClusterRules:
    """Inputs of decisions besides the manifests."""
    rules = _rules(kube, cluster)
    return replace(rules, gang_schedulers=frozenset(gang_schedulers)) if gang_schedulers else rules


def _rules(kube: str | None, cluster: ClusterFlags) -> ClusterRules:
    """Those of the minor in the flag, of a named cluster, or of the newest minor."""
    if kube is not None:
        return ClusterRules(generation_of_minor(kube) or NEWEST)
    if not cluster.given:
        return ClusterRules()
    from gangctl.cli.cluster import ask_cluster, discover_rules  # noqa: PLC0415 -- 400 ms that files do without

    return ask_cluster(cluster, discover_rules)


def plan_manifests(
    filenames: Sequence[str], namespace: str | None, rules: ClusterRules, uid: str | None = None
) -> list[PlannedManifest]:
    """Plan every JobSet and PathwaysJob in these files; InvalidInputError with all errors of all of them."""
    problems = Problems()
    found = []
    for manifest in read_manifests(filenames, namespace, rules):
        errors = list(manifest.errors)
        if manifest.readable:
            resolution = resolve(manifest.jobset, rules)
            errors += manifest.at_source([*resolution.errors, *requests_per_pod(manifest.raw)[1]])
        if problems.add(manifest.document, errors):
            continue
        plan = make_plan(manifest.jobset, resolution.stamps, resolution.config, uid)
        planned = Planned(manifest.jobset, plan, (*manifest.notices, *resolution.notices), rules.generation)
        report, _ = plan_report(manifest.raw, planned)
        found.append(PlannedManifest(manifest, planned, report))
    problems.raise_if_any()
    return found
