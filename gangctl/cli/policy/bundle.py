"""The documents of a command by purpose: policies, exceptions, Namespaces, parameters, subjects. And their flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from gangctl.api.documents import Document
from gangctl.api.meta import API_VERSION
from gangctl.api.objects import Object, kind_of, object_at
from gangctl.cli import options
from gangctl.cli.inputs import count_kinds, read_documents
from gangctl.cli.messages import errors_in
from gangctl.cli.options import Decorator, F
from gangctl.errors import InputError, one_line
from gangctl.kueue.names import PARAMETERS_KIND
from gangctl.policy import native
from gangctl.policy.model import EXCEPTION_KIND, POLICY_KIND
from gangctl.readiness.report import KIND as GANG_KIND

GANGCTL_GROUP: Final = "gangctl.dev"


_PURPOSES: Final = {
    (GANGCTL_GROUP, POLICY_KIND): "policies",
    (GANGCTL_GROUP, EXCEPTION_KIND): "exceptions",
    (native.GROUP, native.POLICY_KIND): "natives",
    (native.GROUP, native.BINDING_KIND): "bindings",
    ("", "Namespace"): "namespaces",
}
"""By group and kind; everything else is among the others."""
_EVALUATED: Final[Mapping[str, frozenset[str]]] = {
    own: frozenset(kind for group, kind in _PURPOSES if group == own) for own in (GANGCTL_GROUP, native.GROUP)
}
_OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    GANGCTL_GROUP: ("Policy", "GangPlan"),
    native.GROUP: ("ValidatingWebhookConfiguration", "Mutating"),
}
"""Beginnings of the other kinds of these groups: tests, reports, and what is not evaluated by."""
_STORED: Final = frozenset({(GANGCTL_GROUP, PARAMETERS_KIND), (GANGCTL_GROUP, GANG_KIND)})
"""Objects of a cluster that are no policies, and may lie beside them."""
_VERSIONS: Final = {GANGCTL_GROUP: API_VERSION, native.GROUP: f"{native.GROUP}/v1"}
_SHOWN: Final = 80


def policy_files(*, required: bool = True) -> Decorator[Any]:
    """``--policy``: where to read policies."""
    return options.paths(
        "-p",
        "--policy",
        "policy_files",
        required=required,
        about="Policies, and what belongs to them: bindings, exceptions, parameters, Namespaces. Can be repeated.",
    )


def paths(*names: str, about: str) -> Decorator[Any]:
    """An option that names files or directories, and can be repeated."""
    return click.option(*names, multiple=True, metavar="FILE", type=click.Path(), help=about)


def kubernetes(command: F) -> F:
    """``--kube``: whose gangs, and whose CEL in native policies."""
    return click.option(
        "--kube",
        type=click.Choice(options.KUBERNETES),
        default=options.RELEASED,
        show_default=True,
        help="Kubernetes minor whose gangs are planned and whose CEL native policies have; GangPolicies have 1.37's.",
    )(command)


def name_of(value: Mapping[str, Any]) -> str:
    """``metadata.name`` or ``metadata.generateName``; empty if there is neither."""
    metadata = object_at(value, "metadata")
    for key in ("name", "generateName"):
        if isinstance(metadata.get(key), str) and metadata[key]:
            return str(metadata[key])
    return ""


@dataclass(frozen=True)
class Bundle:
    """Documents by purpose; ``others`` are parameters or subjects, depending on the policies."""

    policies: tuple[Document, ...] = ()
    natives: tuple[Document, ...] = ()
    bindings: tuple[Document, ...] = ()
    exceptions: tuple[Document, ...] = ()
    namespaces: tuple[Document, ...] = ()
    others: tuple[Document, ...] = ()

    def __add__(self, more: Bundle) -> Bundle:
        """Both; the documents of a file that two options name are one."""
        return Bundle(*map(_union, vars(self).values(), vars(more).values()))

    @property
    def rules(self) -> tuple[Document, ...]:
        """All policies, of both kinds."""
        return self.policies + self.natives

    @property
    def namespaces_by_name(self) -> dict[str, Object]:
        """The Namespace objects."""
        return {name_of(document.value): document.value for document in self.namespaces}


def _union(some: Iterable[Document], more: Iterable[Document]) -> tuple[Document, ...]:
    return tuple({document.where(): document for document in (*some, *more)}.values())


def read_bundle(files: Sequence[str]) -> Bundle:
    """The documents of files; without files there are none."""
    return sort_documents(read_documents(files)) if files else Bundle()


def sort_documents(documents: Iterable[Document]) -> Bundle:
    """Each document to its purpose; InvalidInputError for a misspelt type: such a policy would never be evaluated."""
    by_purpose: dict[str, list[Document]] = {}
    misspelt = []
    for document in documents:
        misspelt += _misspelt(document)
        by_purpose.setdefault(_PURPOSES.get(kind_of(document.value), "others"), []).append(document)
    if misspelt:
        raise errors_in("the input", misspelt)
    return Bundle(**{purpose: tuple(members) for purpose, members in by_purpose.items()})


def only(purpose: str, documents: Iterable[Document], place: str, what: str) -> Bundle:
    """The documents of a ``place`` that takes nothing but these; InputError at one with another purpose."""
    bundle = sort_documents(documents)
    for field, members in vars(bundle).items():
        if members and field != purpose:
            kind = one_line(kind_of(members[0].value)[1], _SHOWN) or "no kind"
            raise InputError(f"{members[0].where()}: {place} takes {what} only, found {kind}")
    return bundle


def _misspelt(document: Document) -> list[str]:
    """What is nearly, but not, the type of a policy or of something that belongs to one."""
    group, kind = kind_of(document.value)
    if not kind or (group, kind) in _STORED:
        return []
    if group in _EVALUATED and not kind.startswith(_OTHERS[group]) and kind not in _EVALUATED[group]:
        shown, known = one_line(kind, _SHOWN), ", ".join(sorted(_EVALUATED[group]))
        return [f'{document.where("kind")}: kind: {group} has no kind "{shown}", expected {known}']
    owner = next((own for own, kinds in _EVALUATED.items() if kind in kinds and own != group), "")
    if owner:
        shown = one_line(str(document.value.get("apiVersion")), _SHOWN)
        return [f'{document.where("apiVersion")}: apiVersion: of {kind} it is {_VERSIONS[owner]}, not "{shown}"']
    return []


def check_names(documents: Iterable[Document]) -> None:
    """Every object has a type and a name; InvalidInputError with all that have not."""
    lines = []
    for document in documents:
        _, kind = kind_of(document.value)
        if not isinstance(document.value.get("apiVersion"), str) or not kind:
            lines.append(f"{document.where()}: an object needs apiVersion and kind")
        elif not name_of(document.value):
            lines.append(f"{document.where('metadata')}: metadata.name: {kind} needs a name")
    if lines:
        raise errors_in("the input", lines)


def check_unique(documents: Iterable[Document], what: str) -> None:
    """InputError when two documents have one name: which of them counts would depend on their order."""
    first: dict[str, Document] = {}
    for document in documents:
        name = name_of(document.value)
        if name in first:
            here, there = document.where("metadata.name"), first[name].where("metadata.name")
            if here == there:
                hint = "name each file once: policies with -p, the objects to evaluate with -f"
                raise InputError(f'{here}: {what} "{name}" is read twice: two options name this file', hint=hint)
            hint = "give them different names, or leave one out"
            raise InputError(f'{here}: {what} "{name}" is also at {there}', hint=hint)
        first[name] = document


def no_policies(bundle: Bundle) -> InputError:
    """The error if there are no policies."""
    return InputError(
        f"no policy in the input: found {count_kinds(bundle.others) or 'none'}",
        hint=f"expected {POLICY_KIND} ({API_VERSION}) or {native.POLICY_KIND} (admissionregistration.k8s.io/v1)",
    )
