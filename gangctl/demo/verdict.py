"""What both acts came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gangctl.demo.scenario import CPUS, JOBSETS, PODS
from gangctl.demo.sight import Result


@dataclass(frozen=True, slots=True)
class Verdict:
    """Both acts; ``places`` is how many pods the nodes take together."""

    kubernetes: str
    simulated: bool
    without: Result
    with_gangs: Result
    places: int = CPUS

    @property
    def passed(self) -> bool:
        """Whether gangs made the difference that they are for."""
        return self.without.as_expected and self.with_gangs.as_expected

    @property
    def lines(self) -> tuple[str, str, str]:
        """The demo in three sentences."""
        return (
            f"Without gangs: {self.without}.",
            f"With gangctl: {self.with_gangs}.",
            "That is what gangs are for." if self.passed else "That is not what gangs are for: something is wrong.",
        )

    def as_json(self) -> dict[str, Any]:
        """The document of ``gangctl demo -o json``."""
        return {
            "kubernetes": self.kubernetes,
            "simulated": self.simulated,
            "scenario": {"jobSets": JOBSETS, "podsPerJobSet": PODS, "places": self.places},
            "acts": [self.without.as_json(), self.with_gangs.as_json()],
            "passed": self.passed,
        }
