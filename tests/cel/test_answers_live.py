"""The recorded answers are those of a real API server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.cel.answers import recorded
from tests.controlplane.api import path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for

pytestmark = pytest.mark.controlplane

ADMISSION: Final = "admissionregistration.k8s.io/v1"
BATCH: Final = 100
FEW: Final = 12
"""Of expressions that fail: a server's warnings have 4096 characters together."""
GROUP: Final = "answers.gangctl.test"
_WARNING: Final = re.compile(r'299 - "(.*)"')


def definition() -> dict[str, Any]:
    """A resource that may hold anything."""
    names = {"plural": "subjects", "singular": "subject", "kind": "Subject", "listKind": "SubjectList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"subjects.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def documents(name: str, texts: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy of which each expression is a validation, and a binding that warns; the first is a canary."""
    rule = {"apiGroups": [GROUP], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["subjects"]}
    validations = [{"expression": "false", "message": "canary"}]
    validations += [{"expression": text, "message": f"{number} is false"} for number, text in enumerate(texts)]
    metadata = {"name": name}
    policy = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": validations},
    }
    binding = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {
            "policyName": name,
            "validationActions": ["Warn"],
            "matchResources": {"objectSelector": {"matchLabels": {"batch": name}}},
        },
    }
    return policy, binding


async def warnings(plane: ControlPlane, name: str, namespace: str, obj: dict[str, Any]) -> list[str]:
    """The answer of a policy when the object is created."""
    subject = {
        **obj,
        "apiVersion": f"{GROUP}/v1",
        "kind": "Subject",
        "metadata": {"name": name, "labels": {"batch": name}},
    }

    async def in_force() -> list[str]:
        answer = await plane.api.exchange(
            "POST",
            path_of(f"{GROUP}/v1", "subjects", namespace=namespace),
            data=json.dumps(subject),
            parameters={"dryRun": "All"},
            headers={"Content-Type": "application/json"},
        )
        found = [match[1] for each in answer.headers.getall("Warning", []) if (match := _WARNING.match(each))]
        if not any("canary" in each for each in found):
            raise NotYet(f"the canary of {name} lives: {answer.status}")
        return found

    return await wait_for(in_force, what=f"{name} to be in force")


async def batch(plane: ControlPlane, name: str, namespace: str, texts: Sequence[str], obj: dict[str, Any]) -> list[str]:
    policy, binding = documents(name, texts)
    await plane.api.create(path_of(ADMISSION, "validatingadmissionpolicies"), policy)
    await plane.api.create(path_of(ADMISSION, "validatingadmissionpolicybindings"), binding)
    try:
        return await warnings(plane, name, namespace, obj)
    finally:
        await plane.api.delete(f"{path_of(ADMISSION, 'validatingadmissionpolicybindings')}/{name}")
        await plane.api.delete(f"{path_of(ADMISSION, 'validatingadmissionpolicies')}/{name}")


def batches(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    return [texts[start : start + size] for start in range(0, len(texts), size)]


async def test_the_server_gives_the_recorded_answers(plane_1_37: ControlPlane, namespace: str) -> None:
    answers = recorded()
    definitions = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
    await plane_1_37.api.create(definitions, definition())
    try:
        groups = [*batches(answers.holds, BATCH), *batches(list(answers.fails), FEW)]
        said = await asyncio.gather(
            *(
                batch(plane_1_37, f"{namespace}-{number}", namespace, texts, answers.object)
                for number, texts in enumerate(groups)
            )
        )
    finally:
        await plane_1_37.api.delete(f"{definitions}/subjects.{GROUP}")
    wrong: list[str] = []
    for texts, found in zip(groups, said, strict=True):
        failed = [each for each in found if "canary" not in each]
        if texts[0] in answers.fails:
            wrong += [f"{each}, from {texts[0]}" for each in failed if each.endswith("is false")]
            if len(failed) != len(texts):
                wrong.append(f"{len(texts) - len(failed)} of {len(texts)} did not fail, from {texts[0]}")
        else:
            wrong += [f"{each}, from {texts[0]}" for each in failed]
    assert not wrong, "\n".join(wrong)
