"""Which requests a policy applies to: ``MatchResources`` of ``admissionregistration.k8s.io/v1`` and its selectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from gangctl.api.labelselector import Operator, holds

LABEL_KEY_CHARACTERS: Final = 253 + 1 + 63
LABEL_VALUE_CHARACTERS: Final = 63
NAME_CHARACTERS: Final = 253


class Part(BaseModel):
    """A part of an object that a person writes: unknown fields are refused, nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=LABEL_KEY_CHARACTERS)]
LabelValue = Annotated[str, StringConstraints(max_length=LABEL_VALUE_CHARACTERS)]
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
        description="Names of the objects; empty for all. Objects with generateName have none.",
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
