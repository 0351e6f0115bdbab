"""Policies of files made ready to evaluate, or everything that is wrong with them, with places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gangctl.api.documents import Document
from gangctl.cli.messages import InvalidInputError
from gangctl.cli.policy.bundle import Bundle, check_names, check_unique, name_of, no_policies
from gangctl.cli.policy.places import Remark, Severity, in_order
from gangctl.errors import ValidationError
from gangctl.policy.exemptions import LoadedException, load_exception
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedPolicy, PolicyError, Problem, problem_of_field
from gangctl.policy.native import load_pair, pair


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was loaded: policies in the order of their names, where each was written, and exceptions."""

    policies: tuple[LoadedPolicy, ...] = ()
    documents: Mapping[str, Document] = field(default_factory=dict)
    exceptions: tuple[LoadedException, ...] = ()
    remarks: tuple[Remark, ...] = ()
    """Errors, when :func:`try_to_load` was asked; none otherwise."""

    def named(self, name: str) -> list[LoadedPolicy]:
        """Policies of that name: a native one also by its own, without that of its binding."""
        return [policy for policy in self.policies if name in {policy.name, policy.name.partition("/")[0]}]

    @property
    def unbound(self) -> list[str]:
        """Native policies that nothing binds, and that are taken to be bound with Deny."""
        return [policy.name for policy in self.policies if policy.native and "/" not in policy.name]


def load(bundle: Bundle, minor: str) -> Loaded:
    """Load all policies; InvalidInputError with everything that is wrong with any of them."""
    if not bundle.rules:
        raise no_policies(bundle)
    loaded = try_to_load(bundle, minor)
    if loaded.remarks:
        raise refusal(loaded.remarks)
    return loaded


def try_to_load(bundle: Bundle, minor: str) -> Loaded:
    """Load what can be loaded; the rest becomes remarks."""
    check_names([*bundle.rules, *bundle.bindings, *bundle.exceptions])
    check_unique(bundle.policies, "GangPolicy")
    check_unique(bundle.natives, "ValidatingAdmissionPolicy")
    check_unique(bundle.exceptions, "GangPolicyException")
    found: list[tuple[LoadedPolicy, Document]] = []
    remarks: list[Remark] = []
    for document in bundle.policies:
        try:
            found.append((load_policy(document.value), document))
        except PolicyError as error:
            remarks += remarks_of(error.problems, document, error.policy)
    documents = {id(document.value): document for document in (*bundle.natives, *bundle.bindings)}
    for each in pair(documents[key].value for key in documents)[0]:
        document = documents[id(each.policy)]
        try:
            found.append((load_pair(each, minor), document))
        except PolicyError as error:
            binding = document if each.binding is None else documents[id(each.binding)]
            for problem in error.problems:
                remarks += remarks_of([problem], binding if problem.binding else document, error.policy)
    exceptions = []
    for document in bundle.exceptions:
        try:
            exceptions.append(load_exception(document.value))
        except ValidationError as error:
            problems = [problem_of_field(each) for each in error.errors]
            remarks += remarks_of(problems, document, name_of(document.value))
    found.sort(key=lambda pair: pair[0].name)
    return Loaded(
        tuple(policy for policy, _ in found),
        {policy.name: document for policy, document in found},
        tuple(sorted(exceptions, key=lambda each: each.name)),
        tuple(in_order(remarks)),
    )


def remarks_of(problems: Iterable[Problem], document: Document, policy: str, *, refused: bool = True) -> list[Remark]:
    """Problems of a policy as remarks about its file."""
    return [
        Remark(
            document,
            Severity.ERROR,
            problem.kind,
            problem.path,
            f"{problem.path}: {problem.message}" if problem.path else problem.message,
            problem.hint,
            problem.offset,
            problem.length or 1,
            policy,
            refused,
        )
        for problem in problems
    ]


def refusal(remarks: Iterable[Remark]) -> InvalidInputError:
    """All that is wrong with the policies, as one error."""
    remarks = list(remarks)
    files = {(remark.document.source, remark.document.line) for remark in remarks}
    errors = "1 error" if len(remarks) == 1 else f"{len(remarks)} errors"
    objects = "1 policy" if len(files) == 1 else f"{len(files)} policies"
    return InvalidInputError([line for remark in remarks for line in remark.lines()], f"{errors} in {objects}")


def is_parameter(document: Document, policies: Iterable[LoadedPolicy]) -> bool:
    """Whether some policy takes parameters of this kind."""
    value = document.value
    kinds = (policy.spec.param_kind for policy in policies)
    return any(k and (k.api_version, k.kind) == (value.get("apiVersion"), value.get("kind")) for k in kinds)


def orphans(bundle: Bundle) -> list[str]:
    """Bindings of policies that are not in the files."""
    return [name_of(binding) for binding in pair(d.value for d in (*bundle.natives, *bundle.bindings))[1]]
