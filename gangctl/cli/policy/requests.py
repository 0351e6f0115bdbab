"""Requests as the API server would send them, for objects in files and in a cluster.

A PathwaysJob is two requests, its own and the one that creates its JobSet: a cluster with the controller of
PathwaysJobs is sent the PathwaysJob by a person, and the JobSet by the controller. Policies are hardly ever about the
first, always about the second. So the JobSet is what is evaluated, and the PathwaysJob beside it where a policy says
that it is about those. An UPDATE reaches the PathwaysJob alone: its JobSet is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.api import jsonpatch
from gangctl.api.documents import Document
from gangctl.api.jobset import read_jobset
from gangctl.api.labelselector import NAMESPACE_NAME, all_hold
from gangctl.api.meta import JOBSET_API_VERSION
from gangctl.api.objects import Object, kind_of, object_at, objects_at
from gangctl.api.scheduling import NEWEST, Generation
from gangctl.apiserver.create import Created, create, create_job, update
from gangctl.apiserver.systemfields import filled, unfilled, updated, wiped
from gangctl.cli.inputs import DEFAULT_NAMESPACE
from gangctl.cli.manifests import TRAINJOB, Problems, after_trainjob, read_pathways_manifest
from gangctl.cli.messages import full_name
from gangctl.cli.policy.bundle import name_of
from gangctl.cluster.stock import Stock
from gangctl.fit.report import FitReport
from gangctl.fit.verdict import FitRequest, fit
from gangctl.gang.admission import restored
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.names import GROUP as KUEUE
from gangctl.pathways.words import is_pathways_job
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.model import LabelSelector
from gangctl.policy.review import EVALUATED, Operation, Review, labels_of
from gangctl.policy.variables import ParamCatalogue, Scope, gang_of, unknown_fit, with_params

_JOBSET: Final = "JobSet"


def is_jobset(obj: Object) -> bool:
    """Whether an object is a JobSet of the version that the rules are known of."""
    return obj.get("apiVersion") == JOBSET_API_VERSION and obj.get("kind") == _JOBSET


def as_admitted(obj: Object, before: Object | None = None) -> Created:
    """The object as policies are asked about it, new or made of ``before``, with what an API server with JobSet adds.

    It is as it was where that refuses it, and where it is neither a JobSet nor a Job.
    """
    if (obj.get("apiVersion"), obj.get("kind")) == ("batch/v1", "Job"):
        # The Job controller's labels have the UID, which an update does not change.
        known = {key: value for key, value in object_at(before or {}, "metadata").items() if key == "uid"}
        return create_job({**obj, "metadata": {**known, **object_at(obj, "metadata")}})
    if not is_jobset(obj):
        return Created(dict(obj))
    created = create(obj) if before is None else update(obj, before)
    if created.refused:
        return replace(created, obj=dict(obj))
    stored, spec = created.obj["spec"], object_at(obj, "spec")
    # The CRDs of later releases keep these. Without gangConfig a policy would be laxer here than there; with
    # spec.scheduling one about pods in no gang is laxer here than with JobSet 0.12, which sent_for notes.
    for new, old in (
        (stored, spec),
        *zip(stored.get("replicatedJobs", ()), spec.get("replicatedJobs") or (), strict=True),
    ):
        new.update({key: old[key] for key in ("gangConfig", "scheduling") if key in old})
    return created


@dataclass(frozen=True, slots=True)
class Sent:
    """An object that an API server is sent, and the document that it comes from."""

    document: Document
    obj: Object
    notes: tuple[str, ...] = ()
    only_if_matched: bool = False
    """Of a PathwaysJob beside its JobSet, which has the same name: nothing is said where no policy is about it."""

    @property
    def kind(self) -> str:
        """Of the object."""
        return kind_of(self.obj)[1]

    @property
    def namespace(self) -> str:
        """Of the object, as it is written."""
        return str(object_at(self.obj, "metadata").get("namespace") or DEFAULT_NAMESPACE)

    @property
    def name(self) -> str:
        """Of the object."""
        return name_of(self.obj)

    @property
    def place(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def sent_for(documents: Iterable[Document], operation: Operation, generation: Generation) -> list[Sent]:
    """What an API server of a generation is sent of these documents.

    InvalidInputError with all errors of all PathwaysJobs.
    """
    problems = Problems()
    requests: list[Sent] = []
    for document in documents:
        if not is_pathways_job(document.value):
            requests.append(Sent(document, document.value, tuple(_advice(document.value))))
            continue
        manifest = read_pathways_manifest(document, None, ClusterRules(generation))
        if problems.add(document, manifest.errors):
            continue
        if operation == "UPDATE":
            note = "an UPDATE of a PathwaysJob does not change its JobSet: no policy about JobSets is asked"
            requests.append(Sent(document, document.value, (note,)))
            continue
        requests.append(Sent(document, document.value, only_if_matched=True))
        notes = (
            f"evaluated is the JobSet that PathwaysJob {manifest.title} becomes",
            *(f"{notice.reason}: {notice.message}" for notice in manifest.notices),
        )
        requests.append(Sent(document, manifest.raw, notes))
    problems.raise_if_any()
    return requests


def _advice(obj: Object) -> Iterator[str]:
    """What a person should know before any policy is asked about an object."""
    if kind_of(obj) == ("trainer.kubeflow.org", TRAINJOB):
        yield after_trainjob("policy eval --policy FILE")
    spec = object_at(obj, "spec")
    if is_jobset(obj) and any("scheduling" in part for part in (spec, *objects_at(spec, "replicatedJobs"))):
        yield (
            "evaluated as where JobSet has the field spec.scheduling: JobSet 0.12 drops it, and policies may refuse "
            "what is left"
        )


USER: Final = "kubernetes-admin"
GROUPS_OF_USER: Final = "system:authenticated and, of a service account, those of all and of its namespace"
"""What :func:`groups_of` returns, for the help."""
_CLUSTER_SCOPED: Final = {
    *(("", kind) for kind in ("Namespace", "Node", "PersistentVolume")),
    *((KUEUE, kind) for kind in ("AdmissionCheck", "ClusterQueue", "Cohort", "MultiKueueCluster", "MultiKueueConfig")),
    *((KUEUE, kind) for kind in ("ProvisioningRequestConfig", "ResourceFlavor", "Topology", "WorkloadPriorityClass")),
    *(("rbac.authorization.k8s.io", kind) for kind in ("ClusterRole", "ClusterRoleBinding")),
    *(("resource.k8s.io", kind) for kind in ("DeviceClass", "ResourceSlice")),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("node.k8s.io", "RuntimeClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "StorageClass"),
}
_PLURALS: Final = {"Ingress": "ingresses", "NetworkPolicy": "networkpolicies", "Endpoints": "endpoints"}


Fit = Callable[[Object, str], FitReport]
"""Whether a JobSet in a namespace can be admitted by its queue."""


def now() -> datetime:
    """The time by which exceptions expire."""
    return datetime.now(tz=UTC)


@dataclass(frozen=True, slots=True)
class RequestSetting:
    """What requests have in common: who asks, when, and what the cluster around them is."""

    now: datetime = field(default_factory=now)
    namespace: str = DEFAULT_NAMESPACE
    user: str = USER
    groups: tuple[str, ...] = ()
    """Empty for those that the name of the user brings."""
    generation: Generation = NEWEST
    gang_schedulers: tuple[str, ...] = ()
    evaluated: Sequence[Mapping[str, Any]] = EVALUATED
    """``matchExpressions`` of the namespaces that gangctl evaluates."""
    namespaces: Mapping[str, Object] = field(default_factory=dict)
    """Namespace objects by name."""
    fit: Fit = lambda raw, namespace: unknown_fit(raw, namespace, ["no queues were given"])

    @property
    def rules(self) -> ClusterRules:
        """What gang plans depend on besides the JobSet."""
        generation, names = self.generation, frozenset(self.gang_schedulers)
        return ClusterRules(generation, names) if names else ClusterRules(generation)


def request_of(
    subject: Object,
    operation: Operation,
    setting: RequestSetting,
    policies: Sequence[LoadedPolicy],
    catalogue: ParamCatalogue,
    *,
    old: Object | None = None,
) -> tuple[Review, tuple[str, ...]]:
    """The request that creates ``subject``, turns ``old`` into it, or deletes it, as policies meet it.

    The notes are what a person should know of how it was made.
    """
    admitted = as_admitted(subject, old)
    subject = admitted.obj
    notes = []
    if old is not None:
        old = as_admitted(old).obj
        home = str(object_at(subject, "metadata").get("namespace") or setting.namespace)
        if is_jobset(subject) and not is_left_alone(home, namespace_object(home, setting), setting.evaluated):
            # Before policies are asked: stamps and what defaults of a policy wrote are not in the user's file.
            patch, notices = restored(subject, old)
            subject = jsonpatch.apply(subject, patch)
            notes += [f"{notice.reason}: {notice.message}" for notice in notices]
    if admitted.errors:
        server = "JobSet" if is_jobset(subject) else "the API server"
        because = f"is evaluated as written, because {server} refuses it" if admitted.refused else "never runs"
        notes.append(f"{title_of(subject, setting)} {because}: {admitted.errors[0]}")
    review = review_of(subject, operation, setting, old)
    namespace = review.request.get("namespace")
    if namespace and namespace not in setting.namespaces and any(policy.reads_namespace for policy in policies):
        notes.append(f"no Namespace {namespace} among the files: taken to be one without labels of its own")
    return with_params(review, policies, catalogue), tuple(notes)


def groups_of(user: str) -> tuple[str, ...]:
    """The groups that an API server gives every user with this name."""
    # As ``SplitUsername`` and ``MakeGroupNames`` in apiserver's authentication/serviceaccount.
    match user.split(":"):
        case ["system", "serviceaccount", namespace, _]:
            return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        case ["system", "anonymous"]:
            return ("system:unauthenticated",)
    return ("system:authenticated",)


def title_of(obj: Object, setting: RequestSetting) -> str:
    """Kind, namespace and name, as a person calls it."""
    namespace = object_at(obj, "metadata").get("namespace") or (setting.namespace if is_namespaced(obj) else "")
    return f"{kind_of(obj)[1]} {full_name(namespace, name_of(obj))}"


def is_namespaced(obj: Object) -> bool:
    """Whether objects of this kind have a namespace, as far as that is known."""
    return kind_of(obj) not in _CLUSTER_SCOPED


def review_of(
    subject: Object, operation: Operation, setting: RequestSetting, old: Object | None = None, part: str = ""
) -> Review:
    """The request for objects that are complete; ``part`` is the subresource."""
    metadata = object_at(subject, "metadata")
    namespace = str(metadata.get("namespace") or setting.namespace) if is_namespaced(subject) else ""
    subject = _placed(subject, namespace)
    if operation == "CREATE":
        subject = wiped(subject)
    if old is None:
        complete = filled(subject, setting.now)
    else:
        # A JobSet of a cluster has the gang of its stamps, also where the file has no UID.
        if uid := object_at(old, "metadata").get("uid"):
            subject = {**subject, "metadata": {"uid": uid, **object_at(subject, "metadata")}}
        old = filled(_placed(old, namespace), setting.now)
        complete = updated(subject, old, part)
    new = None if operation == "DELETE" else subject
    return Review(
        operation=operation,
        now=setting.now,
        request=_request(complete, operation, namespace, setting) | ({"subResource": part} if part else {}),
        object=None if operation == "DELETE" else complete,
        # At DELETE the API server sends the object as oldObject alone.
        old_object=complete if operation == "DELETE" else old,
        namespace=namespace_object(namespace, setting) if namespace else None,
        # Without the fields that are filled in: their placeholders are those of no cluster.
        gang=gang_of(new, setting.rules, new=operation == "CREATE") if new is not None and is_jobset(new) else None,
        fit=setting.fit(new, namespace) if new is not None and is_jobset(new) else None,
    )


def before_defaults(review: Review) -> Review:
    """The request for a new object as mutating webhooks meet it."""
    obj = unfilled(review.object or {})
    return replace(review, object=obj, request={**review.request, "name": _own_name(obj)})


def namespace_object(name: str, setting: RequestSetting) -> Object:
    """The Namespace of that name, or what is sure to be true of it where none was given."""
    bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {NAMESPACE_NAME: name}}}
    given = setting.namespaces.get(name)
    if given is None:
        return bare
    metadata = object_at(given, "metadata")
    labels = metadata.get("labels")
    return {
        **given,
        "metadata": {**metadata, "labels": {NAMESPACE_NAME: name, **(labels if isinstance(labels, dict) else {})}},
    }


def is_left_alone(name: str, namespace: Object | None, evaluated: Sequence[Mapping[str, Any]] = EVALUATED) -> bool:
    """Whether gangctl evaluates nothing in a namespace, neither a GangPolicy nor its defaults, by ``evaluated``.

    Of a Namespace that is not known (None), only its name counts.
    """
    labels = {NAMESPACE_NAME: name, **labels_of(namespace)}
    known = [term for term in evaluated if namespace is not None or term["key"] == NAMESPACE_NAME]
    return not all_hold(known, labels)


def _placed(obj: Object, namespace: str) -> Object:
    return {**obj, "metadata": {**object_at(obj, "metadata"), "namespace": namespace}} if namespace else obj


def _own_name(obj: Object) -> str:
    """``metadata.name``, empty where it is generated later."""
    return str(object_at(obj, "metadata").get("name") or "")


def _request(subject: Object, operation: Operation, namespace: str, setting: RequestSetting) -> dict[str, Any]:
    """``AdmissionRequest`` (``admission.k8s.io/v1``) without its objects."""
    api_version = str(subject.get("apiVersion") or "")
    group, kind = kind_of(subject)
    version = api_version.rpartition("/")[2]
    group_version_kind = {"group": group, "version": version, "kind": kind}
    resource = {"group": group, "version": version, "resource": resource_of(kind)}
    return {
        "kind": group_version_kind,
        "resource": resource,
        "requestKind": group_version_kind,
        "requestResource": resource,
        "name": _own_name(subject),
        **({"namespace": namespace} if namespace else {}),
        "operation": operation,
        "userInfo": {"username": setting.user, "groups": list(setting.groups or groups_of(setting.user))},
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.capitalize()}Options"},
    }


def resource_of(kind: str) -> str:
    """The resource of a kind, by the rule that nearly all of them follow."""
    if kind in _PLURALS:
        return _PLURALS[kind]
    lower = kind.lower()
    if lower.endswith(("s", "x", "ch", "sh")):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("y") and lower[-2:-1] not in "aeiou" else f"{lower}s"


def fit_of(stock: Stock, setting: RequestSetting) -> Fit:
    """Answers for JobSets that would be created beside what the files have."""

    def answer(raw: Object, namespace: str) -> FitReport:
        labels = labels_of(namespace_object(namespace, setting)) | dict(stock.labels(namespace) or {})
        request = FitRequest(raw, namespace, labels, read_jobset(raw)[0].queue)
        return fit(request, stock.completed(stock.snapshot))

    return answer


_PARAMS_WITHOUT_NAMESPACE: Final = frozenset(
    {"Namespace", "Node", "ClusterRole", "ClusterQueue", "PriorityClass", "StorageClass", "ResourceFlavor", "Topology"}
)
_CONSTRAINTS: Final = "constraints.gatekeeper.sh/"
"""The group of Gatekeeper's constraints, whose kinds it makes from templates, cluster-scoped."""


class FileCatalogue:
    """Parameter objects from files, as :class:`~gangctl.policy.variables.ParamCatalogue`.

    A file does not say whether a kind has namespaces. It has when one of its objects or the paramRef of one of
    ``policies`` names one or, for a custom kind, when none says otherwise; objects without one are in ``namespace``.
    A cluster does say so: ``scopes``, by apiVersion and kind, are then all kinds that there are.
    """

    def __init__(
        self,
        objects: Iterable[Mapping[str, Any]],
        namespace: str = "default",
        scopes: Mapping[tuple[str, str], Scope] | None = None,
        policies: Iterable[LoadedPolicy] = (),
    ) -> None:
        """Keep the objects by kind."""
        self._namespace = namespace
        self._scopes = scopes
        specs = [policy.spec for policy in policies]
        # The API server refuses a namespace for a kind without them (policy_dispatcher.go of apiserver).
        self._placed = {
            (spec.param_kind.api_version, spec.param_kind.kind)
            for spec in specs
            if spec.param_kind is not None and spec.param_ref is not None and spec.param_ref.namespace
        }
        self._kinds: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for obj in objects:
            self._kinds.setdefault((str(obj.get("apiVersion")), str(obj.get("kind"))), []).append(obj)

    def scope(self, api_version: str, kind: str) -> Scope | None:
        """Whether objects of a kind have a namespace; a kind without objects is taken to be there, and namespaced."""
        if self._scopes is not None:
            return self._scopes.get((api_version, kind))
        known = self._kinds.get((api_version, kind), [])
        if kind in _PARAMS_WITHOUT_NAMESPACE or api_version.startswith(_CONSTRAINTS):
            return "Cluster"
        named = (api_version, kind) in self._placed
        named = named or any(object_at(obj, "metadata").get("namespace") for obj in known)
        return "Namespaced" if "/" not in api_version or not known or named else "Cluster"

    def find(
        self, api_version: str, kind: str, namespace: str, *, name: str = "", selector: LabelSelector | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """The object of that name, or those that the selector fits."""
        return [
            obj
            for obj in self._kinds.get((api_version, kind), [])
            if (not namespace or (object_at(obj, "metadata").get("namespace") or self._namespace) == namespace)
            and (not name or object_at(obj, "metadata").get("name") == name)
            and (selector is None or selector.matches(labels_of(obj)))
        ]
