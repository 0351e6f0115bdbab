"""What people write: GangPolicy and GangPolicyException of ``gangctl.dev/v1alpha1``.

A GangPolicy is a ValidatingAdmissionPolicy and its one binding in one object, with the
fields, the limits and the defaults of those, plus names of rules and ``defaults``. The
models know types, sizes and words; what spans several fields is in :mod:`gangctl.policy.reading`.
The CustomResourceDefinitions under ``manifests/`` are written from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StringConstraints
from pydantic.alias_generators import to_camel

from gangctl.api.labelselector import Operator, holds
from gangctl.gang.config import GangOptions

POLICY_KIND: Final = "GangPolicy"
EXCEPTION_KIND: Final = "GangPolicyException"

# A DNS subdomain, a slash and a name.
LABEL_KEY_CHARACTERS: Final = 253 + 1 + 63
LABEL_VALUE_CHARACTERS: Final = 63
NAME_CHARACTERS: Final = 253
DELAY_CHARACTERS: Final = 64

STORED_BYTES: Final = 1536 * 1024
"""Limit of a literal message, for the sake of a limit: etcd stores no larger object."""
MESSAGE_BYTES: Final = 5 * 1024
"""Limit of a computed message: ``MaxEvaluatedMessageExpressionSizeBytes`` of the API server."""
EXPRESSION_CHARACTERS: Final = 4 * 1024
POLICY_CHARACTERS: Final = 64 * 1024
"""Limit of all expressions of a policy together."""
# These two are limits of the API server, for native policies as well.
MATCH_CONDITIONS: Final = 64
AUDIT_ANNOTATIONS: Final = 20
RULES: Final = 64
VARIABLES: Final = 64
QUEUES: Final = 64
RULE_NAME: Final = r"^[A-Za-z]([-A-Za-z0-9_]{0,61}[A-Za-z0-9])?$"
"""No digit first, so that no name is another rule's index; no dot, so that none is a field path."""

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[-+]\d\d:\d\d)")


def _written_time(value: Any) -> Any:
    """Only the format of ``metav1.Time``: pydantic would also accept a number of seconds."""
    if isinstance(value, datetime) or (isinstance(value, str) and _RFC3339.fullmatch(value)):
        return value
    raise ValueError("must be a time such as 2026-12-31T00:00:00Z")


Time = Annotated[AwareDatetime, BeforeValidator(_written_time)]
Expression = Annotated[str, StringConstraints(min_length=1, max_length=EXPRESSION_CHARACTERS)]
QueueName = Annotated[str, StringConstraints(max_length=NAME_CHARACTERS)]
"""As long as a LocalQueue's may be; :mod:`gangctl.policy.reading` checks the shorter limit of labels."""
ValidationAction = Literal["Deny", "Warn", "Audit"]
StatusReason = Literal["Forbidden", "Invalid", "RequestEntityTooLarge"]
"""Kubernetes also documents Unauthorized, and refuses it."""


class Part(BaseModel):
    """A part of an object that a person writes: unknown fields are refused, nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=LABEL_KEY_CHARACTERS)]
LabelValue = Annotated[str, StringConstraints(max_length=LABEL_VALUE_CHARACTERS)]
Delay = Annotated[str, StringConstraints(min_length=1, max_length=DELAY_CHARACTERS)]
"""A Go duration, or ``never``; :mod:`gangctl.policy.reading` checks it."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_CHARACTERS)]


class LabelSelectorRequirement(Part):
    """One term of a label selector."""

    key: LabelKey = Field(description="The label key that the term is about.")
    operator: Operator = Field(description="How the key relates to the values: In, NotIn, Exists, DoesNotExist.")
    values: tuple[LabelValue, ...] = Field(
        default=(), max_length=64, description="Of In and NotIn at least one, of Exists and DoesNotExist none."
    )


class LabelSelector(Part):
    """``metav1.LabelSelector``: all terms hold; an empty one selects everything."""

    match_labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, max_length=64, description="Labels with exactly these values."
    )
    match_expressions: tuple[LabelSelectorRequirement, ...] = Field(
        default=(), max_length=32, description="Further terms, all of which have to hold."
    )

    @property
    def selects_everything(self) -> bool:
        """Whether there is no term."""
        return not self.match_labels and not self.match_expressions

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels are selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            holds(term.key, term.operator, term.values, labels) for term in self.match_expressions
        )


Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT", "*"]


class ResourceRule(Part):
    """``NamedRuleWithOperations``: operations on resources."""

    resource_names: tuple[Name, ...] = Field(
        default=(),
        max_length=100,
        description="Names of the objects; empty for all. Defaults see no generated name.",
    )
    operations: tuple[Operation, ...] = Field(
        min_length=1, max_length=5, description="CREATE, UPDATE, DELETE, or * for all."
    )
    api_groups: tuple[Annotated[str, StringConstraints(max_length=NAME_CHARACTERS)], ...] = Field(
        min_length=1, max_length=16, description="API groups of the resources."
    )
    api_versions: tuple[Name, ...] = Field(
        min_length=1, max_length=16, description="API versions of the resources, * for all."
    )
    resources: tuple[Name, ...] = Field(min_length=1, max_length=16, description="Resources in the plural.")
    scope: Literal["Cluster", "Namespaced", "*"] = Field(
        default="*", description="Whether the rule is about namespaced objects, cluster-scoped ones, or both."
    )


class MatchResources(Part):
    """Which requests: every selector and one of the rules has to fit, and none of the excluded ones."""

    namespace_selector: LabelSelector = Field(
        default=LabelSelector(), description="Selects by labels of the object's Namespace; empty for all."
    )
    object_selector: LabelSelector = Field(
        default=LabelSelector(), description="Selects by labels of the object, new or old; empty for all."
    )
    resource_rules: tuple[ResourceRule, ...] = Field(
        default=(), max_length=32, description="Operations and resources; empty for CREATE of JobSets."
    )
    exclude_resource_rules: tuple[ResourceRule, ...] = Field(
        default=(), max_length=32, description="Operations and resources that are left out, whatever resourceRules say."
    )
    match_policy: Literal["Exact", "Equivalent"] = Field(
        default="Equivalent",
        description="Whether a rule also covers the same resource under another version of its API.",
    )


class MatchCondition(Part):
    """A condition for the policy to apply."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=LABEL_KEY_CHARACTERS)] = Field(
        description="Name of the condition, unique in the policy."
    )
    expression: Expression = Field(description="CEL, true where the policy applies; it cannot read variables.")


class Variable(Part):
    """A value that later expressions read as ``variables.NAME``."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63)] = Field(
        description="A CEL identifier, unique in the policy."
    )
    expression: Expression = Field(description="CEL of any type; it reads the variables above it.")


class Validation(Part):
    """A rule."""

    name: Annotated[str, StringConstraints(pattern=RULE_NAME, max_length=63)] = Field(
        default="",
        # The empty default does not match the pattern.
        validate_default=False,
        description="Name of the rule in results, reports and exceptions; its index if it has no name.",
    )
    expression: Expression = Field(description="CEL, true where the object keeps the rule.")
    message: Annotated[str, StringConstraints(max_length=STORED_BYTES)] = Field(
        default="", description="What is said when the rule is broken, on one line."
    )
    message_expression: Annotated[str, StringConstraints(max_length=POLICY_CHARACTERS)] = Field(
        default="", description="CEL of a string that takes the place of message, unless it fails or is empty."
    )
    reason: StatusReason = Field(default="Invalid", description="Decides the HTTP status of a denial.")


class AuditAnnotation(Part):
    """A note in the API server's audit log."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=LABEL_KEY_CHARACTERS)] = Field(
        description="Name of the note behind the policy's name and a slash."
    )
    value_expression: Expression = Field(description="CEL of a string, or of null for no note.")


class ParamKind(Part):
    """What kind of objects the parameters are."""

    api_version: Name = Field(description="API group and version, such as v1 or example.com/v1.")
    kind: Name = Field(description="Kind, such as ConfigMap.")


class ParamRef(Part):
    """Which objects the parameters are: one by name or several by labels; each is an evaluation of its own."""

    name: Annotated[str, StringConstraints(max_length=253)] = Field(default="", description="Name of the object.")
    namespace: Annotated[str, StringConstraints(max_length=63)] = Field(
        default="", description="Its namespace; empty for the namespace of the request."
    )
    selector: LabelSelector | None = Field(default=None, description="Labels of the objects, instead of a name.")
    parameter_not_found_action: Literal["Allow", "Deny"] = Field(
        description="Where there is no such object: Allow leaves the policy out, Deny leaves it to failurePolicy."
    )


class Accelerator(Part):
    """What pods are after: one of the two, or both at once."""

    resource: Annotated[str, StringConstraints(max_length=LABEL_KEY_CHARACTERS)] = Field(
        default="", description="Resource that they request (or limit), such as nvidia.com/gpu."
    )
    node_labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, max_length=16, description="Labels that their nodeSelector has, with these values."
    )


class QueueMatch(Part):
    """Which JobSets: everything that is given has to fit."""

    namespace_selector: LabelSelector | None = Field(default=None, description="Labels of the Namespace.")
    object_selector: LabelSelector | None = Field(default=None, description="Labels of the JobSet.")
    priority_classes: tuple[Name, ...] = Field(
        default=(),
        max_length=64,
        description="One of these is the WorkloadPriorityClass in the JobSet's label kueue.x-k8s.io/priority-class or, "
        "without that label, the first priorityClassName of its pods.",
    )
    accelerator: Accelerator | None = Field(
        default=None, description="What the pods of at least one replicated job are after."
    )


class QueueChoice(Part):
    """An entry of the queue map."""

    match: QueueMatch = Field(description="For which JobSets; needs at least one condition.")
    queue: QueueName = Field(description="Label kueue.x-k8s.io/queue-name: a LocalQueue of their namespace.")
    priority_class: LabelValue | None = Field(
        default=None, description="Label kueue.x-k8s.io/priority-class, for JobSets in this queue."
    )


class Defaults(Part):
    """Values that JobSets get at CREATE if they do not set them."""

    gang_mode: Literal["Off", "Gang"] | None = Field(
        default=None, description="Annotation gangctl.dev/gang-mode of the JobSet."
    )
    replicated_job_gang_mode: Literal["Off", "Gang", "ReplicatedGang"] | None = Field(
        default=None, description="Annotation gangctl.dev/gang-mode of each replicated job; not beside gangMode Gang."
    )
    options: GangOptions | None = Field(
        default=None,
        description="Entries of annotation gangctl.dev/gang-options, for JobSets that become gangs; topologyKey and "
        "disruption not for those with annotation gangctl.dev/gangs, whose entries have them.",
    )
    evict_stranded_after: Delay | None = Field(
        default=None,
        description="Annotation gangctl.dev/evict-stranded-after, for JobSets that become gangs: a duration, or never.",
    )
    queues: tuple[QueueChoice, ...] = Field(
        default=(), max_length=QUEUES, description="Queues by what the JobSet is; the first entry that fits decides."
    )
    queue: QueueName | None = Field(
        default=None, description="Label kueue.x-k8s.io/queue-name, where no entry of queues fits."
    )
    priority_class: LabelValue | None = Field(
        default=None, description="Label kueue.x-k8s.io/priority-class, where no entry of queues says another."
    )


class GangPolicySpec(Part):
    """Fields of ValidatingAdmissionPolicySpec and ValidatingAdmissionPolicyBindingSpec, and ``defaults``."""

    match_constraints: MatchResources = Field(
        default=MatchResources(), description="Which JobSets; absent for every one that is created."
    )
    match_conditions: tuple[MatchCondition, ...] = Field(
        default=(), max_length=MATCH_CONDITIONS, description="Further conditions; the first one that is false decides."
    )
    param_kind: ParamKind | None = Field(default=None, description="Kind of the objects that params reads.")
    param_ref: ParamRef | None = Field(default=None, description="Which of them.")
    variables: tuple[Variable, ...] = Field(
        default=(), max_length=VARIABLES, description="Named values, computed when they are first read."
    )
    validations: tuple[Validation, ...] = Field(default=(), max_length=RULES, description="Rules; all are evaluated.")
    audit_annotations: tuple[AuditAnnotation, ...] = Field(
        default=(), max_length=AUDIT_ANNOTATIONS, description="Notes in the audit log."
    )
    validation_actions: tuple[ValidationAction, ...] = Field(
        default=("Deny",), min_length=1, max_length=3, description="What follows when a rule is broken."
    )
    failure_policy: Literal["Fail", "Ignore"] = Field(
        default="Fail",
        description="Whether what cannot be evaluated counts as broken (the default), or is left out. What exceeds its "
        "limits of steps, time or memory counts as broken in any case. A policy that cannot be loaded refuses JobSets "
        "only if Fail is written here.",
    )
    defaults: Defaults | None = Field(default=None, description="Values for JobSets that do not set them.")
    # Strict, because pydantic takes "yes" and 1 for true, which an API server refuses.
    background: StrictBool = Field(default=True, description="Whether JobSets that exist already are evaluated too.")

    @property
    def selects_namespaces(self) -> bool:
        """Whether a selector reads the labels of the Namespace; expressions may do so besides."""
        choices = () if self.defaults is None else self.defaults.queues
        selectors = [
            self.match_constraints.namespace_selector,
            *(choice.match.namespace_selector for choice in choices),
        ]
        return not all(selector is None or selector.selects_everything for selector in selectors)


class Metadata(Part):
    """What gangctl reads of ``metadata``; the rest is the API server's."""

    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel)

    name: Name
    generation: Annotated[int, Field(ge=0, lt=2**63)] = 0
    uid: str = ""


class GangPolicy(Part):
    """A policy for JobSets, in CEL, which may read the gang that a JobSet becomes."""

    api_version: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["GangPolicy"]
    metadata: Metadata
    spec: GangPolicySpec


class ExceptedPolicy(Part):
    """A policy, and which of its rules."""

    name: Name = Field(description="Name of the GangPolicy.")
    rules: tuple[Annotated[str, StringConstraints(min_length=1, max_length=63)], ...] = Field(
        default=(), max_length=RULES, description="Names (or indexes) of its rules; empty for the whole policy."
    )


class ExceptionMatch(Part):
    """For which JobSets: everything that is given has to fit."""

    namespaces: tuple[Name, ...] = Field(default=(), max_length=100, description="Names of namespaces; empty for all.")
    names: tuple[Name, ...] = Field(
        default=(),
        max_length=100,
        description="Names of JobSets, or beginnings of names followed by *; empty for all.",
    )
    namespace_selector: LabelSelector = Field(default=LabelSelector(), description="Labels of the Namespace.")
    object_selector: LabelSelector = Field(default=LabelSelector(), description="Labels of the JobSet.")


class GangPolicyExceptionSpec(Part):
    """What is allowed although a policy forbids it, who answers for that, and until when."""

    policies: tuple[ExceptedPolicy, ...] = Field(min_length=1, max_length=50, description="Policies and their rules.")
    match: ExceptionMatch = Field(default=ExceptionMatch(), description="For which JobSets; absent for all.")
    owner: Annotated[str, StringConstraints(min_length=1, max_length=253)] = Field(
        description="Who answers for it: a person or a team."
    )
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024)] = Field(description="Why it is needed.")
    expires_at: Time = Field(description="When it ends by itself.")


class GangPolicyException(Part):
    """An exception from policies, with an owner, a reason and an end."""

    api_version: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["GangPolicyException"]
    metadata: Metadata
    spec: GangPolicyExceptionSpec
