"""Shipped policies that use native variables only have the verdicts of their test files on a real kube-apiserver."""

import pytest

from gangctl.api.meta import API_VERSION, SKIP_LABEL
from gangctl.cli.policy.suite import Expected
from gangctl.policy.export import export
from gangctl.policy.load import load_policy
from gangctl.policy.model import POLICY_KIND
from gangctl.policy.review import JOBSET_RULES
from gangctl.policy.verdict import CODES
from tests.controlplane.api import ApiFailure, path_of
from tests.controlplane.components.addon import NAMESPACES, create_namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import wait_for
from tests.policies.bare import ACCEPTED
from tests.policies.native import BARE, BINDINGS, POLICIES, denied_name, policy_of, said_of
from tests.policies.pack import Case, Object, Shipped, native, shipped
from tests.rows import each

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("pack")]

NATIVE = tuple(native())


def due_of(cases: list[Case]) -> set[str]:
    """The messages that one object gets, by all rules together."""
    return {case.row.message or "" for case in cases if case.row.result in {Expected.FAIL, Expected.WARN}}


def by_request(policy: Shipped) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in policy.cases:
        found.setdefault(f"{case.row.operation} {case.resource['metadata']['name']}", []).append(case)
    return found


@each("policy", NATIVE, ids=lambda policy: policy.name)
async def test_a_real_server_gives_the_verdicts_of_the_test_file(
    policy: Shipped, plane_of_the_pack: ControlPlane
) -> None:
    requests = by_request(policy)
    said = {
        request: set(await said_of(plane_of_the_pack.api, cases[0].resource, cases[0].old, policy.name))
        for request, cases in requests.items()
    }
    assert said == {request: due_of(cases) for request, cases in requests.items()}


@each("policy", NATIVE, ids=lambda policy: policy.name)
async def test_the_example_passes_on_a_real_server(policy: Shipped, plane_of_the_pack: ControlPlane) -> None:
    assert await said_of(plane_of_the_pack.api, policy.example, None, policy.name) == []


@each("policy", NATIVE, ids=lambda policy: policy.name)
async def test_denies_with_the_reason_of_the_rule(policy: Shipped, plane_of_the_pack: ControlPlane) -> None:
    for case in policy.cases:
        if case.row.message is None or case.old is not None:
            continue
        named = {**case.resource, "metadata": {**case.resource["metadata"], "name": denied_name(policy)}}
        path = path_of("jobset.x-k8s.io/v1alpha2", "jobsets", namespace=named["metadata"]["namespace"])
        with pytest.raises(ApiFailure) as failure:
            await plane_of_the_pack.api.create(path, named, dryRun="All")
        (rule,) = (rule for rule in policy.spec["validations"] if rule["name"] == case.row.rule)
        assert failure.value.message.endswith(f" denied request: {case.row.message}")
        assert failure.value.status == CODES[rule.get("reason", "Invalid")]


@each("spec", ACCEPTED, ids=str)
async def test_a_real_server_evaluates_an_empty_object(spec: Object | None, plane_of_the_pack: ControlPlane) -> None:
    obj = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": BARE, "namespace": "team-a"},
        **({} if spec is None else {"spec": spec}),
    }
    for policy in NATIVE:
        for said in await said_of(plane_of_the_pack.api, obj, None, policy.name):
            assert "resulted in error" not in said
            assert "error" not in said, f"{policy.name}: {said}"


@each("policy", NATIVE, ids=lambda policy: policy.name)
async def test_the_server_accepts_what_is_exported(policy: Shipped, plane_of_the_pack: ControlPlane) -> None:
    for path, exported in zip((POLICIES, BINDINGS), export(load_policy(policy.document)).objects, strict=True):
        renamed = {**exported, "metadata": {**exported["metadata"], "name": f"exported-{policy.name}"}}
        await plane_of_the_pack.api.create(path, renamed, dryRun="All", fieldValidation="Strict")


async def test_an_exported_policy_is_about_what_gangctl_evaluates(plane_of_the_pack: ControlPlane) -> None:
    """Not about namespaces in break-glass, and not about what is being deleted."""
    api = plane_of_the_pack.api
    every = {**JOBSET_RULES[0].model_dump(by_alias=True, exclude_unset=True), "operations": ["CREATE", "UPDATE"]}
    rule = {"name": "never", "expression": "object.metadata.name != 'never'", "message": "not this"}
    spec = {"matchConstraints": {"resourceRules": [every]}, "validations": [rule]}
    document = {"apiVersion": API_VERSION, "kind": POLICY_KIND, "metadata": {"name": "exported"}, "spec": spec}
    for path, exported in zip((POLICIES, BINDINGS), export(load_policy(document)).objects, strict=True):
        await api.create(path, {**exported})
    await create_namespace(api, "exported")
    namespace, jobsets = f"{NAMESPACES}/exported", path_of("jobset.x-k8s.io/v1alpha2", "jobsets", namespace="exported")
    metadata = {"name": "never", "namespace": "exported", "finalizers": ["example.org/held"]}
    never = {**NATIVE[0].example, "metadata": metadata}

    async def is_denied() -> bool:
        try:
            await api.create(jobsets, never, dryRun="All")
        except ApiFailure as failure:
            return failure.message.endswith(" denied request: not this")
        return False

    async def is_admitted() -> bool:
        return not await is_denied()

    await wait_for(is_denied, "the server to know the exported policy")
    await api.patch(namespace, {"metadata": {"labels": {SKIP_LABEL: "true"}}})
    await wait_for(is_admitted, "the server to know the label of break-glass")
    await api.create(jobsets, never)
    await api.patch(namespace, {"metadata": {"labels": {SKIP_LABEL: None}}})
    await wait_for(is_denied, "the server to know that it is gone")
    with pytest.raises(ApiFailure, match="denied request: not this"):
        await api.patch(f"{jobsets}/never", {"metadata": {"labels": {"team": "a"}}})
    await api.delete(f"{jobsets}/never")
    await api.patch(f"{jobsets}/never", {"metadata": {"finalizers": None}})


async def fieldless(plane: ControlPlane, spec: Object, name: str) -> list[str]:
    """Where the server, with the schemas of JobSets and ConfigMaps at hand, finds fields that do not exist."""
    await plane.api.create(POLICIES, policy_of(spec, name))

    async def checked() -> Object:
        found = await plane.api.get(f"{POLICIES}/{name}")
        status: Object = found.get("status", {})
        return status if "observedGeneration" in status else {}

    try:
        status = await wait_for(checked, "the server to check types")
        return [each["warning"] for each in status["typeChecking"].get("expressionWarnings", [])]
    finally:
        await plane.api.delete(f"{POLICIES}/{name}")


def all_validations(policy: Shipped) -> Object:
    """The server checks types of validations only: everything becomes one, with variables written out as they are."""
    texts = [entry["expression"] for part in ("matchConditions", "variables") for entry in policy.spec.get(part, [])]
    known = [{"expression": f"[dyn({text})].size() == 1"} for text in texts]
    return {**policy.spec, "matchConditions": [], "validations": [*policy.spec["validations"], *known]}


@each("policy", NATIVE, ids=lambda policy: policy.name)
async def test_only_existing_fields_are_used(policy: Shipped, plane_of_the_pack: ControlPlane) -> None:
    assert await fieldless(plane_of_the_pack, all_validations(policy), f"types-{policy.name}") == []


async def test_an_unknown_field_is_detected(plane_of_the_pack: ControlPlane) -> None:
    spec = {**NATIVE[0].spec, "variables": [], "validations": [{"expression": "has(object.spec.replicas)"}]}
    (found,) = await fieldless(plane_of_the_pack, {**spec, "matchConditions": []}, "types-of-a-typo")
    assert "undefined field 'replicas'" in found


@each("policy", shipped(), ids=lambda policy: policy.name)
async def test_the_server_accepts_the_gangpolicy(policy: Shipped, plane_of_the_pack: ControlPlane) -> None:
    path = path_of("gangctl.dev/v1alpha1", "gangpolicies")
    made = await plane_of_the_pack.api.create(path, policy.document, dryRun="All", fieldValidation="Strict")
    assert {key: made["spec"][key] for key in policy.spec} == policy.spec | {
        "matchConstraints": made["spec"]["matchConstraints"]
    }
