"""Answers to a GangPolicy or an exception: what the controller could not load is refused, with place and remedy."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from gangctl.errors import ValidationError
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import PolicyError, load_exception
from gangctl.sandbox.api import Api, Caller
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.server import Sandbox, SandboxOptions
from gangctl.webhooks.gangpolicies import GangPolicyAdmission
from gangctl.webhooks.review import AdmissionRequest, Kind, StatusCause
from tests.controlplane.wait import NotYet, wait_for
from tests.faults.policies import define
from tests.rows import each
from tests.sandbox.gangctlprocess import controller

Object = dict[str, Any]
GROUP: Final = "gangctl.dev"
ADMIN: Final = Caller("admin", ("system:masters",))
EXCEPTION: Final[Object] = {
    "policies": [{"name": "p"}],
    "owner": "team-a",
    "reason": "benchmark",
    "expiresAt": "2999-01-01T00:00:00Z",
}


def rule(expression: str, **more: Any) -> Object:
    return {"validations": [{"name": "size", "expression": expression, **more}]}


def document(kind: str, spec: Object, name: str = "p") -> Object:
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def asked(raw: Object) -> AdmissionRequest:
    kind = Kind(GROUP, "v1alpha1", raw["kind"])
    return AdmissionRequest("uid", "CREATE", kind, "", "p", object=raw)


REFUSED: Final[dict[str, tuple[Object, str, str]]] = {
    "unknown field of a gang": (
        document("GangPolicy", rule("gang.groups.all(g, g.minCuont < 5)")),
        "spec.validations[0].expression",
        "line 1, column 22: gangctl.Group has no field 'minCuont' (did you mean minCount?)",
    ),
    "unknown field, and none is near": (
        document("GangPolicy", rule("gang !=\n null && gang.minCuont > 1")),
        "spec.validations[0].expression",
        "line 2, column 15: gangctl.Plan has no field 'minCuont' (its fields are ",
    ),
    "unknown variable": (
        document("GangPolicy", rule("variables.larget > 1") | {"variables": [{"name": "large", "expression": "1"}]}),
        "spec.validations[0].expression",
        "(did you mean large?)",
    ),
    "no Boolean": (document("GangPolicy", rule("'a'")), "spec.validations[0].expression", "line 1, column 1: "),
    "condition": (
        document("GangPolicy", {**rule("true"), "matchConditions": [{"name": "a", "expression": "gang.x"}]}),
        "spec.matchConditions[0].expression",
        "line 1, column 6: ",
    ),
    "computed message": (
        document("GangPolicy", rule("true", messageExpression="1")),
        "spec.validations[0].messageExpression",
        "line 1, column 1: ",
    ),
    "unknown field of the policy": (
        document("GangPolicy", {**rule("true"), "validationAction": ["Deny"]}),
        "spec.validationAction",
        "",
    ),
    "other objects than JobSets": (
        document(
            "GangPolicy",
            {
                **rule("true"),
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}
                    ]
                },
            },
        ),
        "spec.matchConstraints.resourceRules[0].apiGroups",
        "write jobset.x-k8s.io alone",
    ),
    "parameters without a kind": (
        document("GangPolicy", {**rule("true"), "paramRef": {"name": "a", "parameterNotFoundAction": "Deny"}}),
        "spec.paramKind",
        "paramRef needs the kind of the objects",
    ),
    "exception with a pattern in the middle": (
        document("GangPolicyException", {**EXCEPTION, "match": {"names": ["a*b"]}}),
        "spec.match.names[0]",
        "a * stands at the end only",
    ),
    "exception of no one": (document("GangPolicyException", {**EXCEPTION, "owner": " "}), "spec.owner", "says nothing"),
    "exception with an unknown field": (
        document("GangPolicyException", {**EXCEPTION, "policy": "p"}),
        "spec.policy",
        "",
    ),
}


@each("case", REFUSED)
async def test_what_cannot_be_loaded_is_refused_with_place_and_remedy(case: str) -> None:
    raw, path, words = REFUSED[case]
    with pytest.raises((PolicyError, ValidationError)):
        (load_policy if raw["kind"] == "GangPolicy" else load_exception)(raw)
    answer = await GangPolicyAdmission().validate(asked(raw))
    assert (answer.allowed, answer.code, answer.reason) == (False, 422, "Invalid")
    first = answer.causes[0]
    assert isinstance(first, StatusCause)
    assert first.field == path
    assert words in first.message
    assert answer.message.startswith(path)
    assert words.partition(": ")[2] in answer.message


async def test_all_problems_are_named() -> None:
    spec = {"validations": [{"expression": f"object.a{n} ++ 1"} for n in range(30)]}
    answer = await GangPolicyAdmission().validate(asked(document("GangPolicy", spec)))
    assert [cause.field for cause in answer.causes if isinstance(cause, StatusCause)] == [
        f"spec.validations[{n}].expression" for n in range(20)
    ]
    assert answer.message.endswith("; 29 more problems")


@each("kind, spec", [("GangPolicy", rule("gang.totalPods < 5")), ("GangPolicyException", EXCEPTION)])
async def test_what_can_be_loaded_is_admitted_without_a_word(kind: str, spec: Object) -> None:
    answer = await GangPolicyAdmission().validate(asked(document(kind, spec)))
    assert (answer.allowed, answer.warnings) == (True, ())


async def test_a_field_that_jobsets_do_not_have_is_warned_of() -> None:
    """As in the status: another version of JobSet may have it."""
    answer = await GangPolicyAdmission().validate(asked(document("GangPolicy", rule("object.spec.replicatedJob != 1"))))
    assert answer.allowed
    (warning,) = answer.warnings
    assert warning.startswith("spec.validations[0].expression, line 1, column 13: ")
    assert "did you mean replicatedJobs?" in warning


@each(
    "named, warned",
    [
        ({"name": "p", "rules": ["size"]}, []),
        ({"name": "broken", "rules": ["any"]}, []),
        (
            {"name": "p", "rules": ["sise"]},
            ['spec.policies[0].rules[0]: GangPolicy "p" has no rule "sise" (did you mean size? Its rules: size)'],
        ),
        ({"name": "brokn"}, ['spec.policies[0].name: there is no GangPolicy "brokn" (did you mean broken?)']),
    ],
)
async def test_an_exception_from_what_does_not_exist_is_admitted_with_a_warning(
    named: Object, warned: list[str]
) -> None:
    """The policy, or its next version, may come later."""
    known = {"p": frozenset({"size"}), "broken": None}
    request = asked(document("GangPolicyException", {**EXCEPTION, "policies": [named]}))
    answer = await GangPolicyAdmission(lambda: known).validate(request)
    assert answer.allowed
    effect = "the exception has no effect on it until there is one"
    assert list(answer.warnings) == [f"{warning}: {effect}" for warning in warned]
    unread = await GangPolicyAdmission(lambda: None).validate(request)
    assert (unread.allowed, unread.warnings) == (True, ())


@contextmanager
def refused(*words: str) -> Iterator[None]:
    with pytest.raises(StatusError) as caught:
        yield
    assert caught.value.code == 422
    assert all(word in caught.value.message for word in words), caught.value.message


async def served(api: Api, plural: str) -> ResourceKind:
    async def seen() -> ResourceKind:
        try:
            return api.kind(f"{plural}.{GROUP}")
        except KeyError as error:
            raise NotYet(str(error)) from error

    return await wait_for(seen, what=plural)


async def update(api: Api, kind: str, name: str, change: Object) -> Object:
    return await api.patch(api.kind(f"{kind}.{GROUP}"), "", name, change, "merge", ADMIN)


async def test_it_is_registered_and_answers_for_specs_alone(tmp_path: Path) -> None:
    """gangctl as a process, its own HTTPS listener, and policies that were stored before it came."""
    async with Sandbox(SandboxOptions(minor="1.37")) as sandbox:
        api = sandbox.api
        await define(api, ADMIN)
        policies, exceptions = [await served(api, plural) for plural in ("gangpolicies", "gangpolicyexceptions")]
        broken = rule("gang.minCuont < 5") | {"failurePolicy": "Ignore"}
        for name in ("old", "going"):
            raw = document("GangPolicy", broken, name)
            raw["metadata"]["finalizers"] = ["example.com/hold"]
            await api.create(policies, "", raw, ADMIN)
        async with controller(sandbox, tmp_path):
            with refused("spec.validations[0].expression, line 1, column 6: gangctl.Plan has no field 'minCuont'"):
                await api.create(policies, "", document("GangPolicy", broken, secrets.token_hex(4)), ADMIN)
            with refused("a * stands at the end only"):
                match = {"names": ["a*b"]}
                await api.create(
                    exceptions, "", document("GangPolicyException", {**EXCEPTION, "match": match}, "e"), ADMIN
                )
            await api.create(exceptions, "", document("GangPolicyException", EXCEPTION, "e"), ADMIN)
            await api.create(policies, "", document("GangPolicy", rule("true"), "new"), ADMIN)
            with refused("minCuont"):
                await update(api, "gangpolicies", "new", {"spec": broken})
            # Neither a spec that stays, nor what is being deleted, nor the status, which gangctl writes, is sent.
            await update(api, "gangpolicies", "old", {"metadata": {"labels": {"a": "b"}}})
            with refused("minCuont"):
                await update(api, "gangpolicies", "old", {"spec": {"background": False}})
            await api.delete(policies, "", "going", ADMIN)
            await update(api, "gangpolicies", "going", {"spec": {"background": False}})
            await update(api, "gangpolicies", "going", {"metadata": {"finalizers": None}})
            assert {each["metadata"]["name"] for each in (await api.list(policies)).items} == {"old", "new"}
            await update(api, "gangpolicies", "old", {"spec": rule("true")})
