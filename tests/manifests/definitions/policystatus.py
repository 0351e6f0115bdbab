"""The status that gangctl writes into policies and exceptions, as their definitions describe it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt, StringConstraints

from gangctl.policy import model
from gangctl.policy.model import Part
from gangctl.policy.reports import MOST_NAMESPACES

_Text = Annotated[str, StringConstraints(max_length=1024)]
_Time = Annotated[str, StringConstraints(max_length=64), Field(json_schema_extra={"format": "date-time"})]
_Count = Annotated[StrictInt, Field(ge=0)]


class Condition(Part):
    """``metav1.Condition``."""

    type: Annotated[str, StringConstraints(max_length=316)] = Field(description="Kind of condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    observed_generation: _Count = Field(default=0, description="Generation of the evaluated object.")
    last_transition_time: _Time = Field(description="When status changed last.")
    reason: Annotated[str, StringConstraints(max_length=1024)] = Field(description="Why, in one word.")
    message: Annotated[str, StringConstraints(max_length=32768)] = Field(description="Why, in words.")


class ExpressionWarning(Part):
    """Something that is probably a mistake in an expression that can nevertheless be evaluated."""

    field_ref: _Text = Field(description="Path of the expression's field.")
    warning: _Text = Field(description="What is wrong, and where in the expression.")


class TypeChecking(Part):
    """What checking against the types of JobSets found."""

    expression_warnings: tuple[ExpressionWarning, ...] = Field(default=(), max_length=64, description="All warnings.")


class Results(Part):
    """How many results of each kind the last scan of existing JobSets had, over all rules and objects."""

    pass_: _Count = Field(default=0, alias="pass", description="Rules that are kept.")
    fail: _Count = Field(default=0, description="Rules that are broken.")
    error: _Count = Field(default=0, description="Rules that could not be evaluated.")
    exempt: _Count = Field(default=0, description="Rules that are broken where an exception allows it.")


class Violations(Part):
    """Rules that the JobSets of one namespace break, or that could not be evaluated."""

    namespace: _Text = Field(description="Name of the namespace.")
    count: _Count = Field(description="How many there are.")


class PolicyStatus(Part):
    """What is known of a policy."""

    observed_generation: _Count = Field(default=0, description="Generation of the policy that is in force.")
    conditions: tuple[Condition, ...] = Field(default=(), max_length=16, description="Ready: whether it can be used.")
    type_checking: TypeChecking | None = Field(default=None, description="Warnings about its expressions.")
    results: Results | None = Field(default=None, description="Counts of the last scan.")
    last_scan_time: _Time | None = Field(
        default=None, description="When a scan of existing JobSets last found something else."
    )
    violations: tuple[Violations, ...] = Field(
        default=(), max_length=MOST_NAMESPACES, description="Violations of the last scan, by namespace, the most first."
    )


class ExceptionStatus(Part):
    """What is known of an exception."""

    observed_generation: _Count = Field(default=0, description="Generation of the exception that is in force.")
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=16,
        description="Active: whether it has an effect, or has expired, or names no policy or rule that exists.",
    )


class GangPolicy(model.GangPolicy):
    __doc__ = model.GangPolicy.__doc__

    status: PolicyStatus | None = None


class GangPolicyException(model.GangPolicyException):
    __doc__ = model.GangPolicyException.__doc__

    status: ExceptionStatus | None = None
