"""Evaluating requests in tests: documents in, outcomes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gangctl.cel.meter import StepMeter
from gangctl.errors import ValidationError
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedException, LoadedPolicy, load_exception
from gangctl.policy.model import GangPolicy, LabelSelector
from gangctl.policy.reading import check_policy, read_model
from gangctl.policy.review import Review
from gangctl.policy.variables import Scope
from gangctl.policy.verdict import Outcome
from tests.policy.documents import Object, policy, review_of


def loaded(document: Object) -> LoadedPolicy:
    return load_policy(document)


def evaluated(
    document: Object, review: Review | None = None, *exceptions: Object, meter: StepMeter | None = None
) -> Outcome:
    """The outcome of a policy for a request; without one, for a new JobSet."""
    covering: Sequence[LoadedException] = [load_exception(each) for each in exceptions]
    request = created() if review is None else review
    return Evaluation(request).evaluate(loaded(document), meter or StepMeter.request(lambda: 0.0), covering)


def rules(*validations: Object | str, **spec: Any) -> Object:
    """A policy of these validations."""
    return policy(validations=[{"expression": each} if isinstance(each, str) else each for each in validations], **spec)


def created(name: str = "js", **more: Any) -> Review:
    """A JobSet that is created."""
    return review_of({"metadata": {"name": name, "namespace": "ns"}, "spec": {}}, **more)


class Catalogue:
    """Parameters in a list; ``cluster`` are kinds without namespaces."""

    def __init__(self, *objects: Object, cluster: Sequence[str] = ()) -> None:
        self._objects = objects
        self._cluster = cluster

    def scope(self, api_version: str, kind: str) -> Scope | None:
        known = {(each["apiVersion"], each["kind"]) for each in self._objects} | {("v1", "ConfigMap")}
        if (api_version, kind) not in known:
            return None
        return "Cluster" if kind in self._cluster else "Namespaced"

    def find(
        self, api_version: str, kind: str, namespace: str, *, name: str = "", selector: LabelSelector | None = None
    ) -> list[Object]:
        inside = [
            each
            for each in self._objects
            if (each["apiVersion"], each["kind"]) == (api_version, kind)
            and each["metadata"].get("namespace", "") == namespace
        ]
        if selector is None:
            return [each for each in inside if each["metadata"]["name"] == name]
        return [each for each in inside if selector.matches(each["metadata"].get("labels", {}))]


def read_policy(document: Object) -> GangPolicy:
    """A policy with valid fields; ValidationError with all errors."""
    read = read_model(document, GangPolicy)
    if errors := check_policy(read):
        raise ValidationError(errors)
    return read
