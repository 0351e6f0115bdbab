"""What differs between the Kubernetes minors under test: the API version that carries gangs, and the gates it needs."""

from dataclasses import dataclass
from types import MappingProxyType

GROUP = "scheduling.k8s.io"


@dataclass(frozen=True)
class Minor:
    """One Kubernetes minor, with gang scheduling switched on the way an operator would."""

    name: str
    scheduling_version: str
    gates: MappingProxyType[str, bool]

    @property
    def runtime_config(self) -> dict[str, bool]:
        return {f"{GROUP}/{self.scheduling_version}": True}


MINORS = MappingProxyType(
    {
        minor.name: minor
        for minor in (
            Minor("1.37", "v1beta1", MappingProxyType({"GenericWorkload": True})),
            Minor("1.36", "v1alpha2", MappingProxyType({"GenericWorkload": True, "GangScheduling": True})),
            Minor("1.35", "v1alpha1", MappingProxyType({"GenericWorkload": True, "GangScheduling": True})),
        )
    }
)
NEWEST = "1.37"
