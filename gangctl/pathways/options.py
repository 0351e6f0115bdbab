"""What can be chosen about a rendering beyond the fields of a PathwaysJob.

The same names serve as the JSON object in annotation ``gangctl.dev/pathways-options``, as ``pathways-options`` in the
controller's settings, and, in kebab case, as flags of ``gangctl pathways render``. The annotation wins over the
settings, entry by entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gangctl.api.quantity import MAX


def _within_64_bits(quantity: str | int) -> str | int:
    """JSON has larger numbers, which no API server takes."""
    if isinstance(quantity, int) and abs(quantity) > MAX:
        raise ValueError(f"a quantity without quotes is at most {MAX}")
    return quantity


AUTO: Final = "auto"
"""Option ``subdomain``: a short one if the name needs it."""
Quantities = Mapping[str, Annotated[str | int, AfterValidator(_within_64_bits)]]
"""A ResourceList: quantities by name of the resource."""


class Startup(StrEnum):
    """In which order JobSet creates head and workers."""

    IN_ORDER = "InOrder"
    """Workers after the head is ready, by ``startupPolicy``."""
    DEPENDS_ON = "DependsOn"
    """The same by ``dependsOn``, which replaces the deprecated ``startupPolicy``."""
    ANY_ORDER = "AnyOrder"
    """Together."""


class Slicing(StrEnum):
    """How the cluster gets its slices."""

    NONE = "None"
    """A slice is a node pool."""
    SUB = "Sub"
    """Part of a larger slice (v6e)."""
    SUPER = "Super"
    """Several 4x4x4 cubes of tpu7x together."""
    DYNAMIC = "Dynamic"
    """Cut out on demand by Kueue's topology-aware scheduling."""


class Resources(BaseModel):
    """As ResourceRequirements; a request that is left out is the limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: Quantities | None = None
    limits: Quantities | None = None


class HeadResources(BaseModel):
    """Resources of the containers that gangctl adds to the head."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)

    resource_manager: Resources | None = None
    proxy: Resources | None = None


class PathwaysOptions(BaseModel):
    """Entries that are left out leave the choice to gangctl; unknown ones are refused.

    :data:`~gangctl.pathways.flags.table.CHOICES` says what each is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)

    image_registry: Annotated[str, Field(min_length=1)] | None = None
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    startup: Startup | None = None
    slicing: Slicing | None = None
    subdomain: str | None = None
    head_node_selector: Mapping[str, str] | None = None
    head_resources: HeadResources | None = None
    unreachable_timeout_seconds: Annotated[int, Field(ge=1)] | None = None
    ttl_seconds_after_finished: Annotated[int, Field(ge=0)] | None = None
    shared_tmp: bool | None = None
    drop_metadata: tuple[str, ...] | None = None

    def over(self, other: PathwaysOptions) -> Self:
        """These options where they say something, the ``other`` ones where they do not."""
        chosen = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        return self.model_copy(update={**{name: getattr(other, name) for name in type(self).model_fields}, **chosen})

    def as_json(self) -> dict[str, Any]:
        """What was chosen, as the annotation has it."""
        return self.model_dump(by_alias=True, exclude_none=True, mode="json")
