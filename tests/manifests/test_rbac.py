"""The rights are few: what is read, what is written, and what is never granted."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from gangctl.cli.install.components import NAMES
from gangctl.cli.install.rendering import InstallationOptions, render
from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.controllers.queues.sources import QueueSources
from gangctl.controllers.readiness.sources import ReadinessSources
from gangctl.controllers.scan import POLICY_REPORTS
from gangctl.policy.reports import NAME as REPORT
from gangctl.webhooks.configurations import DEFAULTS, JOBS_NAME, NAME, POLICIES
from tests.credentials import StaticCredentials
from tests.manifests.files import MANIFESTS, documents
from tests.manifests.rbac import rbac_objects

READ = frozenset({"get", "list", "watch"})
WRITTEN_EVERYWHERE = {
    "workloads": {"create", "patch", "delete"},
    "podgroups": {"create", "patch", "delete"},
    "compositepodgroups": {"create", "patch", "delete"},
    "events": {"create"},
    "gangpolicies/status": {"patch"},
    "gangpolicyexceptions/status": {"patch"},
    "policyreports": {"create", "update", "delete"},
    "mutatingwebhookconfigurations": {"create", "update", "delete"},
    "validatingwebhookconfigurations": {"create", "update", "delete"},
    "mutatingadmissionpolicies": {"create", "update"},
    "mutatingadmissionpolicybindings": {"create", "update"},
}
WRITTEN_AT_HOME = {"leases": {"create", "update"}, "secrets": {"create", "update"}, "jobs": {"create"}}


def rules(kind: str) -> Iterator[dict[str, Any]]:
    for document in rbac_objects("gangctl", "gangctl-system"):
        if document["kind"] == kind:
            yield from document.get("rules") or []


def writes(kind: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for rule in rules(kind):
        for resource in rule["resources"]:
            found.setdefault(resource, set()).update(set(rule["verbs"]) - READ)
    return {resource: verbs for resource, verbs in found.items() if verbs}


@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
def test_no_rule_has_a_wildcard(kind: str) -> None:
    for rule in rules(kind):
        assert set(rule) <= {"apiGroups", "resources", "resourceNames", "verbs"}
        assert not any("*" in entry for values in rule.values() for entry in values)


def test_writes_in_the_cluster_are_the_listed_ones() -> None:
    assert writes("ClusterRole") == WRITTEN_EVERYWHERE


def test_writes_in_the_own_namespace_are_the_listed_ones() -> None:
    assert writes("Role") == WRITTEN_AT_HOME


@pytest.mark.parametrize("resource", ["jobs", "pods", "jobsets"])
def test_running_workloads_are_never_written(resource: str) -> None:
    assert resource not in writes("ClusterRole")
    at_home = writes("Role").get(resource, set())
    assert at_home <= {"create"}, "only the dry-run proof's create, in the own namespace"


@pytest.mark.parametrize("component", NAMES)
def test_no_component_grants_a_change_of_running_workloads(component: str) -> None:
    """PathwaysJobs become JobSets, which are created; nothing else is written. Roles for people are not gangctl's."""
    found = render(InstallationOptions(frozenset({component})))
    own = {
        item["roleRef"]["name"]
        for item in found
        if item["kind"] == "ClusterRoleBinding" and any(who["name"] == "gangctl" for who in item["subjects"])
    }
    changes = {
        (rule["apiGroups"][0], resource, verb)
        for item in found
        if item["kind"] == "ClusterRole" and item["metadata"]["name"] in own
        for rule in item.get("rules") or ()
        for resource in rule["resources"]
        if resource.partition("/")[0] in {"jobsets", "jobs", "pods"}
        for verb in set(rule["verbs"]) - READ
    }
    allowed = {"pathways": {("jobset.x-k8s.io", "jobsets", "create")}, "stranded": {("", "pods/eviction", "create")}}
    assert changes == allowed.get(component, set())


def test_only_the_status_of_policies_is_written_and_no_rbac() -> None:
    resources = {resource for kind in ("ClusterRole", "Role") for rule in rules(kind) for resource in rule["resources"]}
    statuses = {resource for resource in resources if resource.endswith("/status")}
    assert statuses == {"gangpolicies/status", "gangpolicyexceptions/status"}
    verbs = {verb for kind in ("ClusterRole", "Role") for rule in rules(kind) for verb in rule["verbs"]}
    assert verbs <= READ | {"create", "update", "patch", "delete"}


def test_secrets_are_read_in_the_own_namespace_and_by_name() -> None:
    assert not any("secrets" in rule["resources"] for rule in rules("ClusterRole"))
    for rule in rules("Role"):
        if "secrets" in rule["resources"] and set(rule["verbs"]) != {"create"}:
            assert rule["resourceNames"] == ["gangctl-webhook-certs"]


def test_webhook_configurations_are_granted_by_name_except_for_create() -> None:
    names = {
        "mutatingwebhookconfigurations": {NAME, JOBS_NAME, DEFAULTS},
        "validatingwebhookconfigurations": {NAME, POLICIES},
        "mutatingadmissionpolicies": {NAME},
        "mutatingadmissionpolicybindings": {NAME},
    }
    for rule in rules("ClusterRole"):
        for resource in names.keys() & set(rule["resources"]):
            if rule["verbs"] != ["create"]:
                assert {*rule["resourceNames"]} <= names[resource]


def test_parameters_are_read_by_an_aggregated_role_that_grants_nothing_else() -> None:
    aggregated, configmaps = documents(MANIFESTS / "rbac" / "params.yaml")
    assert "rules" not in aggregated
    (selector,) = aggregated["aggregationRule"]["clusterRoleSelectors"]
    assert selector["matchLabels"].items() <= configmaps["metadata"]["labels"].items()
    assert [(rule["resources"], set(rule["verbs"])) for rule in configmaps["rules"]] == [
        (["configmaps"], {"list", "watch"})
    ]
    assert not any(
        "configmaps" in rule["resources"] for rule in documents(MANIFESTS / "rbac" / "clusterrole.yaml")[0]["rules"]
    )


def test_reports_have_a_separate_role() -> None:
    (role,) = documents(MANIFESTS / "rbac" / "reports.yaml")
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {POLICY_REPORTS.plural}
    for rule in role["rules"]:
        assert rule["apiGroups"] == [POLICY_REPORTS.group]
        assert rule.get("resourceNames") == (None if set(rule["verbs"]) <= {"list", "create"} else [REPORT])
    others = [rule for rule in rules("ClusterRole") if rule not in role["rules"]]
    assert not any(POLICY_REPORTS.plural in rule["resources"] for rule in others)


def test_kueue_has_a_separate_read_only_role() -> None:
    (role,) = documents(MANIFESTS / "rbac" / "kueue.yaml")
    read = {resource for rule in role["rules"] for resource in rule["resources"]}
    sources = QueueSources(Client(Transport(StaticCredentials("http://127.0.0.1:1", token="t"))))
    assert read == {each.informer.resource.plural for each in sources.all} - {"namespaces"}
    for rule in role["rules"]:
        assert set(rule["verbs"]) == {"list", "watch"}
        assert rule.get("resourceNames") == (["kueue-manager-config"] if rule["resources"] == ["configmaps"] else None)
    others = [rule for rule in rules("ClusterRole") if rule not in role["rules"]]
    assert not any("kueue.x-k8s.io" in rule["apiGroups"] for rule in others)


def test_readiness_has_a_separate_read_only_role() -> None:
    (role,) = documents(MANIFESTS / "rbac" / "readiness.yaml")
    read = {(rule["apiGroups"][0], resource) for rule in role["rules"] for resource in rule["resources"]}
    sources = ReadinessSources(Client(Transport(StaticCredentials("http://127.0.0.1:1", token="t"))))
    assert read == {(each.informer.resource.group, each.informer.resource.plural) for each in sources.all}
    for rule in role["rules"]:
        # Pods are listed by the right that the deletion of gangs needs, too: each right is there once.
        assert set(rule["verbs"]) == ({"watch"} if rule["resources"] == ["pods"] else {"list", "watch"})
    others = [rule for rule in rules("ClusterRole") if rule not in role["rules"]]
    assert [rule["verbs"] for rule in others if "pods" in rule["resources"]] == [["list"]]
    assert not any("nodes" in rule["resources"] for rule in others)


def test_in_a_cluster_no_configuration_can_be_created_or_deleted() -> None:
    (role,) = documents(MANIFESTS / "rbac" / "clusterrole.yaml")
    for rule in role["rules"]:
        if rule["apiGroups"] == ["admissionregistration.k8s.io"]:
            assert not {"create", "delete"} & set(rule["verbs"])


def test_each_rule_has_a_comment() -> None:
    for name in (
        "clusterrole.yaml",
        "role.yaml",
        "params.yaml",
        "reports.yaml",
        "kueue.yaml",
        "readiness.yaml",
        "registration/clusterrole.yaml",
    ):
        lines = (MANIFESTS / "rbac" / name).read_text().splitlines()
        for before, line in pairwise(lines):
            if line.startswith("  - apiGroups:"):
                again = before.startswith("    verbs:")
                assert before.startswith("  # ") or again, f"{name}: no reason before {line}"


def test_shipped_bindings_are_the_service_accounts() -> None:
    for path in sorted((MANIFESTS / "rbac").rglob("*binding.yaml")):
        (binding,) = documents(path)
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gangctl", "namespace": "gangctl-system"}]
    (account,) = documents(MANIFESTS / "base" / "serviceaccount.yaml")
    assert account["metadata"]["name"] == "gangctl"


@pytest.mark.parametrize(("user", "suffix"), [("gangctl", ""), ("other", ":other")])
def test_the_user_and_namespace_can_be_replaced(user: str, suffix: str) -> None:
    policy, binding, *found = sorted(rbac_objects(user, "home"), key=lambda each: "rules" in each or "roleRef" in each)
    assert policy["spec"]["matchConditions"][0]["expression"] == f"request.userInfo.username == '{user}'"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    kinds = [each["kind"] for each in found]
    assert sorted(kinds) == sorted([*["ClusterRole"] * 7, *["ClusterRoleBinding"] * 6, "Role", "RoleBinding"])
    assert not any(kind.endswith("Binding") for kind in kinds[:8])
    roles = {(each["kind"], each["metadata"]["name"]) for each in found[:8]}
    parameters = ("gangctl-params", "gangctl-params-configmaps")
    bases = ("gangctl", "gangctl-registration", *parameters, "gangctl-reports", "gangctl-kueue", "gangctl-readiness")
    for each in found:
        assert each["metadata"]["name"] in {f"{base}{suffix}" for base in bases}
        assert each["metadata"].get("namespace", "home") == "home"
    for binding in found[8:]:
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
        assert binding["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
