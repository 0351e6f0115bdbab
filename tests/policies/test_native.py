"""Every shipped policy that uses native variables only says on a real kube-apiserver what its test file expects."""

import pytest

from gangctl.cli.policy.suite import Expected
from tests.controlplane.plane import ControlPlane
from tests.policies.native import POLICIES, difference, messages, policy_of, said_of
from tests.policies.pack import Case, Shipped, native

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("pack")]

NATIVE = tuple(native())


def expected_of(cases: list[Case]) -> tuple[set[str], set[str]]:
    """The messages that are due for one object, and the rules that have one."""
    broken = [case for case in cases if case.row.result in {Expected.FAIL, Expected.WARN}]
    return {case.row.message or "" for case in broken}, {case.row.rule or "" for case in broken}


@pytest.mark.parametrize("policy", NATIVE, ids=lambda policy: policy.name)
async def test_says_what_the_test_file_expects(policy: Shipped, plane_of_the_pack: ControlPlane) -> None:
    by_object: dict[str, list[Case]] = {}
    for case in policy.cases:
        by_object.setdefault(f"{case.resource['metadata']['name']} {case.row.operation}", []).append(case)
    said, due = {}, {}
    for name, cases in by_object.items():
        told = await said_of(plane_of_the_pack.api, cases[0].resource, cases[0].old, policy.name)
        said[name], due[name] = set(told), expected_of(cases)[0]
    assert said == due


@pytest.mark.parametrize("policy", NATIVE, ids=lambda policy: policy.name)
async def test_lets_its_example_pass(policy: Shipped, plane_of_the_pack: ControlPlane) -> None:
    assert await said_of(plane_of_the_pack.api, policy.example, None, policy.name) == []
