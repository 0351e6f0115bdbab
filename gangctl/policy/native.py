"""ValidatingAdmissionPolicy and ValidatingAdmissionPolicyBinding, unchanged, evaluated as by the API server.

Each binding of a policy is a separate policy here, named ``POLICY/BINDING``: it has its own actions, parameters and
narrower match. They may match any resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field, StringConstraints

from gangctl.api.objects import Object, object_at
from gangctl.errors import ErrorKind, FieldError, ValidationError
from gangctl.policy.load import DEFAULT_MINOR, compile_spec, fails_closed, refusal
from gangctl.policy.loaded import LoadedPolicy, PolicyProblem, problem_of_field
from gangctl.policy.model import (
    AUDIT_ANNOTATIONS,
    MATCH_CONDITIONS,
    AuditAnnotation,
    GangPolicySpec,
    LabelKey,
    LabelSelector,
    LabelSelectorRequirement,
    LabelValue,
    MatchCondition,
    MatchResources,
    Metadata,
    Name,
    ParamKind,
    ParamRef,
    Part,
    ResourceRule,
    StatusReason,
    Validation,
    ValidationAction,
    Variable,
)
from gangctl.policy.reading import Model, check_actions, check_constraints, check_param_ref, check_spec, read_model

GROUP: Final = "admissionregistration.k8s.io"
POLICY_KIND: Final = "ValidatingAdmissionPolicy"
BINDING_KIND: Final = "ValidatingAdmissionPolicyBinding"
_Versions = Literal["admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1beta1"]
_ANNOTATION_CHARACTERS: Final = 5 * 1024
"""``maxAuditAnnotationValueExpressionLength`` of the API server, which limits no other expression."""


class NativeRequirement(LabelSelectorRequirement):
    """One term of a selector: API servers limit neither terms nor values, as a GangPolicy does."""

    values: tuple[LabelValue, ...] = ()


class NativeSelector(LabelSelector):
    """A selector of any length."""

    match_labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    match_expressions: tuple[NativeRequirement, ...] = ()


class NativeRule(ResourceRule):
    """Operations on any number of resources."""

    resource_names: tuple[Name, ...] = ()
    api_groups: tuple[str, ...] = Field(min_length=1)
    api_versions: tuple[Name, ...] = Field(min_length=1)
    resources: tuple[Name, ...] = Field(min_length=1)


class NativeMatch(MatchResources):
    """Any number of rules."""

    namespace_selector: NativeSelector = NativeSelector()
    object_selector: NativeSelector = NativeSelector()
    resource_rules: tuple[NativeRule, ...] = ()
    exclude_resource_rules: tuple[NativeRule, ...] = ()


class NativeCondition(MatchCondition):
    """A condition of any length."""

    expression: str


class NativeVariable(Variable):
    """A variable of any length."""

    name: str
    expression: str


class NativeAnnotation(AuditAnnotation):
    """A note whose expression may be a little longer than that of a GangPolicy."""

    value_expression: Annotated[str, StringConstraints(max_length=_ANNOTATION_CHARACTERS)]


class NativeParamRef(ParamRef):
    """Parameters that a selector of any length selects."""

    selector: NativeSelector | None = None


class NativeValidation(Part):
    """A validation of a native policy, which has no name."""

    expression: str
    message: str = ""
    message_expression: str = ""
    reason: StatusReason = "Invalid"


class PolicySpec(Part):
    """ValidatingAdmissionPolicySpec."""

    param_kind: ParamKind | None = None
    match_constraints: NativeMatch
    validations: tuple[NativeValidation, ...] = ()
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    audit_annotations: tuple[NativeAnnotation, ...] = Field(default=(), max_length=AUDIT_ANNOTATIONS)
    match_conditions: tuple[NativeCondition, ...] = Field(default=(), max_length=MATCH_CONDITIONS)
    variables: tuple[NativeVariable, ...] = ()


class BindingSpec(Part):
    """ValidatingAdmissionPolicyBindingSpec."""

    policy_name: Name
    param_ref: NativeParamRef | None = None
    match_resources: NativeMatch | None = None
    validation_actions: tuple[ValidationAction, ...] = Field(min_length=1)


class NativePolicy(Part):
    """ValidatingAdmissionPolicy."""

    api_version: _Versions
    kind: Literal["ValidatingAdmissionPolicy"]
    metadata: Metadata
    spec: PolicySpec


class NativeBinding(Part):
    """ValidatingAdmissionPolicyBinding."""

    api_version: _Versions
    kind: Literal["ValidatingAdmissionPolicyBinding"]
    metadata: Metadata
    spec: BindingSpec


class Pair(NamedTuple):
    """A policy and one of its bindings, as documents; ``binding`` is None where there is none."""

    policy: Object
    binding: Object | None

    @property
    def name(self) -> str:
        """``POLICY/BINDING``, or the policy's name."""
        own = _name(self.policy)
        return own if self.binding is None else f"{own}/{_name(self.binding)}"


def is_native(document: Mapping[str, Any]) -> bool:
    """Whether a document is a native policy or binding by its kind, in any version."""
    group, _, version = str(document.get("apiVersion", "")).partition("/")
    return group == GROUP and bool(version) and document.get("kind") in {POLICY_KIND, BINDING_KIND}


def _name(document: Object) -> str:
    return str(object_at(document, "metadata").get("name") or "")


def _policy_name(binding: Object) -> str:
    return str(object_at(binding, "spec").get("policyName") or "")


def pair(documents: Iterable[Mapping[str, Any]]) -> tuple[list[Pair], list[Object]]:
    """Policies with each of their bindings, in the order of the documents, and bindings of other policies."""
    natives = [document for document in _flat(documents) if is_native(document)]
    policies = [document for document in natives if document["kind"] == POLICY_KIND]
    bindings = [document for document in natives if document["kind"] == BINDING_KIND]
    names = {_name(policy) for policy in policies}
    pairs: list[Pair] = []
    for policy in policies:
        own = [binding for binding in bindings if _policy_name(binding) == _name(policy)]
        pairs += [Pair(policy, binding) for binding in own] or [Pair(policy, None)]
    return pairs, [binding for binding in bindings if _policy_name(binding) not in names]


def _flat(documents: Iterable[Object]) -> Iterator[Object]:
    """The items of Lists in their places."""
    for document in documents:
        if document.get("kind") == "List" and document.get("apiVersion") == "v1":
            yield from document.get("items") or ()
        else:
            yield document


def load_native(documents: Iterable[Mapping[str, Any]], minor: str = DEFAULT_MINOR) -> list[LoadedPolicy]:
    """Every policy with each of its bindings; one that has none denies, and is named as the policy.

    :class:`~gangctl.policy.loaded.PolicyError` for the first that cannot be used; :func:`pair` and :func:`load_pair`
    report on each.
    """
    pairs, _ = pair(documents)
    return [load_pair(native, minor) for native in pairs]


def load_pair(pair: Pair, minor: str = DEFAULT_MINOR) -> LoadedPolicy:
    """One policy with one binding; :class:`~gangctl.policy.loaded.PolicyError` with all problems."""
    problems: list[PolicyProblem] = []
    policy = _read(pair.policy, NativePolicy, problems)
    binding = None if pair.binding is None else _read(pair.binding, NativeBinding, problems, _name(pair.binding))
    # Both are read first, so that one error has the problems of both.
    if policy is None or (binding is None and pair.binding is not None):
        raise refusal(pair.name, source_of(pair), GangPolicySpec(), problems, fails_closed=fails_closed(pair.policy))
    spec = _joined(policy.spec, None if binding is None else binding.spec)
    narrowing = None if binding is None else binding.spec.match_resources
    problems += map(problem_of_field, _check_policy(policy, spec))
    if binding is not None:
        problems += [problem_of_field(error, binding.metadata.name) for error in _check_binding(binding.spec)]
    programs, warnings = compile_spec(spec, minor, problems)
    if problems:
        closed = spec.failure_policy == "Fail"
        raise refusal(pair.name, source_of(pair), spec, problems, fails_closed=closed, narrowing=narrowing)
    return LoadedPolicy(
        name=pair.name,
        spec=spec,
        source=source_of(pair),
        native=True,
        programs=programs,
        warnings=warnings,
        narrowing=narrowing,
        generation=policy.metadata.generation,
    )


def read_pair(pair: Pair) -> tuple[GangPolicySpec, MatchResources] | None:
    """Both in the fields of a GangPolicy, and the binding's ``matchResources``; nothing is compiled.

    None where one is missing or has the wrong shape.
    """
    policy = _read(pair.policy, NativePolicy, [])
    binding = None if pair.binding is None else _read(pair.binding, NativeBinding, [])
    if policy is None or binding is None:
        return None
    return _joined(policy.spec, binding.spec), binding.spec.match_resources or NativeMatch()


def source_of(pair: Pair) -> Object:
    """Both documents as a ``v1`` List, from which :func:`load_native` makes the same policy."""
    items = [pair.policy] if pair.binding is None else [pair.policy, pair.binding]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _read(document: Object, model: type[Model], problems: list[PolicyProblem], binding: str = "") -> Model | None:
    try:
        return read_model(_without_nulls(document), model)
    except ValidationError as error:
        problems += [problem_of_field(invalid, binding) for invalid in error.errors]
        return None


def _without_nulls(value: Any) -> Any:
    """The API server reads null as absent in its own types."""
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _joined(policy: PolicySpec, binding: BindingSpec | None) -> GangPolicySpec:
    """Both in the fields of a GangPolicy, whose limits do not apply here."""
    return GangPolicySpec.model_construct(
        match_constraints=policy.match_constraints,
        match_conditions=policy.match_conditions,
        param_kind=policy.param_kind,
        param_ref=None if binding is None else binding.param_ref,
        variables=policy.variables,
        # Constructed, not validated: the limits of GangPolicies are not those of native policies.
        validations=tuple(Validation.model_construct(name="", **dict(rule)) for rule in policy.validations),
        audit_annotations=policy.audit_annotations,
        validation_actions=("Deny",) if binding is None else binding.validation_actions,
        failure_policy=policy.failure_policy,
        defaults=None,
        background=True,
    )


def _check_policy(policy: NativePolicy, spec: GangPolicySpec) -> Iterator[FieldError]:
    # The binding's fields are checked there, under its own name.
    own = spec.model_copy(update={"param_ref": None, "validation_actions": ("Deny",)})
    yield from check_spec(own, policy.metadata.name)
    if not policy.spec.match_constraints.resource_rules:
        yield FieldError("spec.matchConstraints.resourceRules", ErrorKind.REQUIRED, "at least one rule is needed")
    if not policy.spec.validations and not policy.spec.audit_annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        yield FieldError("spec.validations", ErrorKind.REQUIRED, detail)


def _check_binding(spec: BindingSpec) -> Iterator[FieldError]:
    yield from check_actions(spec.validation_actions)
    if spec.param_ref is not None:
        yield from check_param_ref(spec.param_ref)
    if spec.match_resources is not None:
        yield from check_constraints(spec.match_resources, "spec.matchResources")
