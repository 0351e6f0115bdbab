"""The FlowSchemas of gangctl: Leases first, and a separate priority level whose seats are partly not lendable."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gangctl.cli.install.rendering import InstallationOptions, Object, removal, render
from gangctl.manager.settings import ControllerSettings
from tests.manifests.files import MANIFESTS, documents, one
from tests.manifests.helm import Helm

GROUP = "flowcontrol.apiserver.k8s.io/v1"
LEASES, OTHERS = documents(MANIFESTS / "flowcontrol" / "flowschemas.yaml")
LEVEL = one(MANIFESTS / "flowcontrol" / "prioritylevelconfiguration.yaml")["spec"]["limited"]
SHIPPED_SHARES = 245
"""Of the levels that Kubernetes ships; ``tests/live/test_flow_control_live.py`` adds them up."""
SEATS = 600
"""What an API server answers at a time by default: --max-requests-inflight and --max-mutating-requests-inflight."""


def ours(objects: list[Object]) -> dict[tuple[str, str], Object]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects if each["apiVersion"] == GROUP}


def test_flow_schemas_are_installed_in_the_cluster_only() -> None:
    assert sorted(ours(render(InstallationOptions()))) == [
        ("FlowSchema", "gangctl"),
        ("FlowSchema", "gangctl-leader-election"),
        ("PriorityLevelConfiguration", "gangctl"),
    ]
    assert ours(render(InstallationOptions(out_of_cluster=True))) == {}


@pytest.mark.parametrize("namespace", ["gangctl-system", "elsewhere"])
def test_flow_schemas_match_only_the_service_account(namespace: str) -> None:
    objects = render(InstallationOptions(namespace=namespace))
    (account,) = [each["metadata"] for each in objects if each["kind"] == "ServiceAccount"]
    wanted = {"name": account["name"], "namespace": account["namespace"]}
    for (kind, _), each in ours(objects).items():
        if kind == "FlowSchema":
            assert [rule["subjects"] for rule in each["spec"]["rules"]] == [
                [{"kind": "ServiceAccount", "serviceAccount": wanted}]
            ]
    assert account["namespace"] == namespace


def test_leases_use_the_priority_level_of_the_control_plane() -> None:
    shipped = {"system-leader-election": 100, "service-accounts": 9000}
    assert LEASES["spec"]["priorityLevelConfiguration"] == {"name": "leader-election"}
    assert OTHERS["spec"]["priorityLevelConfiguration"] == {"name": "gangctl"}
    assert (
        shipped["system-leader-election"]
        < LEASES["spec"]["matchingPrecedence"]
        < OTHERS["spec"]["matchingPrecedence"]
        < shipped["service-accounts"]
    )
    (rule,) = LEASES["spec"]["rules"][0]["resourceRules"]
    (home,) = documents(MANIFESTS / "rbac" / "role.yaml")
    granted = {verb for each in home["rules"] if each["resources"] == ["leases"] for verb in each["verbs"]}
    assert granted <= {*rule["verbs"]}


def seats() -> tuple[int, int, int]:
    """How many seats are its own, how many cannot be borrowed from it, and how many it has at most."""
    share = LEVEL["nominalConcurrencyShares"]
    nominal = math.ceil(SEATS * share / (SHIPPED_SHARES + share))
    lent, borrowed = (round(nominal * LEVEL[name] / 100) for name in ("lendablePercent", "borrowingLimitPercent"))
    return nominal, nominal - lent, nominal + borrowed


def test_the_share_of_the_level_is_small_and_half_is_not_lendable() -> None:
    _, at_least, at_most = seats()
    assert at_least >= 10, "a list of 500 objects takes five, or nothing would be listed beside another list"
    assert at_most <= 0.08 * SEATS


def test_a_burst_of_one_namespace_waits_and_is_not_refused() -> None:
    queuing = LEVEL["limitResponse"]["queuing"]
    assert OTHERS["spec"]["distinguisherMethod"] == {"type": "ByNamespace"}
    assert queuing["queueLengthLimit"] * queuing["handSize"] >= ControllerSettings().api_qps
    assert queuing["handSize"] * 4 <= queuing["queues"], "or a busy namespace would be in everybody's way"


def test_uninstalling_removes_the_flow_schemas() -> None:
    assert sorted(ours(removal(render(InstallationOptions()), "gangctl-system", everything=False))) == sorted(
        ours(render(InstallationOptions()))
    )


@pytest.mark.controlplane
def test_helm_can_omit_the_flow_schemas(tmp_path: Path) -> None:
    helm = Helm(tmp_path)
    assert len(ours(helm.template())) == 3
    assert ours(helm.template({"flowControl.enabled": False})) == {}
