"""The shapes of Workloads, PodGroups and references in the API version of each minor."""

from typing import Any

from tests.conformance.grounds import Server
from tests.controlplane.api import Object

REFERENCE = {
    "1.37": {"schedulingGroup": {"podGroupName": "g"}},
    "1.36": {"schedulingGroup": {"podGroupName": "g"}},
    "1.35": {"workloadRef": {"name": "w", "podGroup": "g"}},
}
OTHER_REFERENCE = {
    "1.37": {"workloadRef": {"name": "w", "podGroup": "g"}},
    "1.36": {"workloadRef": {"name": "w", "podGroup": "g"}},
    "1.35": {"schedulingGroup": {"podGroupName": "g"}},
}
# The list of groups in a Workload, and the policy in one of them.
TEMPLATES = {"1.37": "podGroupTemplates", "1.36": "podGroupTemplates", "1.35": "podGroups"}
POLICY = {"1.37": "schedulingPolicy", "1.36": "schedulingPolicy", "1.35": "policy"}


class Shapes:
    """Objects as a minor writes them."""

    def __init__(self, server: Server) -> None:
        self.minor = server.minor.name
        self.templates = TEMPLATES[self.minor]
        self.policy = POLICY[self.minor]

    def template(self, name: str = "g", count: int = 2, **fields: Any) -> Object:
        return {"name": name, self.policy: {"gang": {"minCount": count}}, **fields}

    def workload(self, *templates: Object, name: str = "w", **spec: Any) -> Object:
        return {"metadata": {"name": name}, "spec": {self.templates: list(templates), **spec}}

    def stored(self, template: Object) -> Object:
        """A template as it is read back: 1.36 began to write an empty field out."""
        return template if self.minor == "1.35" else {**template, "schedulingConstraints": None}

    def reference(self, workload: str, template: str) -> Object:
        """How a PodGroup names where it comes from."""
        if self.minor == "1.36":
            return {"podGroupTemplateRef": {"workload": {"workloadName": workload, "podGroupTemplateName": template}}}
        return {"workloadRef": {"workloadName": workload, "templateName": template}}


def group(name: str = "g", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec}}
