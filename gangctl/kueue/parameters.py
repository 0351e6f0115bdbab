"""Parameters of gangctl's AdmissionChecks: GangAdmissionParameters of ``gangctl.dev/v1alpha1``.

An AdmissionCheck names one in ``spec.parameters``; without parameters the defaults hold. The
CustomResourceDefinition is generated from the models (:mod:`gangctl.controllers.checks.parameters`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError
from pydantic.alias_generators import to_camel

from gangctl.api.modelerrors import field_errors
from gangctl.errors import FieldError
from gangctl.kueue.names import PARAMETERS_KIND

API_VERSION: Final = "gangctl.dev/v1alpha1"
PLURAL: Final = "gangadmissionparameters"

_DAY: Final = 86_400


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class GangAdmissionParametersSpec(_Part):
    """How long quota is held for a gang, and what follows when it does not come about; durations in seconds."""

    timeout_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] = Field(
        default=60,
        description="How long a Workload may hold quota while the objects of its gang are not there. "
        "That others take long is never waited for: the objects are made in milliseconds.",
    )
    on_failure: Literal["Retry", "Reject"] = Field(
        default="Retry",
        description="What follows a timeout, or a policy that denies: Retry gives the quota back and tries again "
        "later, Reject deactivates the Workload.",
    )
    max_retries: Annotated[StrictInt, Field(ge=0, le=100)] = Field(
        default=10, description="Retries in a row, after which the Workload is deactivated."
    )
    retry_base_seconds: Annotated[StrictInt, Field(ge=1, le=_DAY)] = Field(
        default=60, description="Delay of the first retry; each further one waits twice as long."
    )
    retry_max_seconds: Annotated[StrictInt, Field(ge=1, le=_DAY)] = Field(
        default=1800, description="The longest delay of a retry."
    )


class GangAdmissionParameters(_Part):
    """Parameters of AdmissionChecks whose controllerName is gangctl.dev/gang-ready."""

    # Other metadata, and fields that the API server adds, are ignored.
    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel)

    api_version: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["GangAdmissionParameters"]
    spec: GangAdmissionParametersSpec


DEFAULTS: Final = GangAdmissionParametersSpec()


def read_parameters(raw: Mapping[str, Any]) -> GangAdmissionParametersSpec | tuple[FieldError, ...]:
    """The parameters of a raw object, or all errors in them."""
    try:
        return GangAdmissionParameters.model_validate({**raw, "kind": PARAMETERS_KIND, "apiVersion": API_VERSION}).spec
    except ValidationError as problem:
        return tuple(field_errors(problem))
