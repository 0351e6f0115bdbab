"""The roles of tenants are narrow, and are granted only as docs/tenants.md describes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from gangctl.client.resources import Resource
from gangctl.cluster import kinds
from gangctl.manager.settings import parse_selector
from tests.manifests.files import MANIFESTS, ROOT, documents, one

TENANTS = MANIFESTS / "tenants"
ROLES = {role["metadata"]["name"]: role for role in documents(TENANTS) if role["kind"] == "ClusterRole"}
TEXT = (ROOT / "docs" / "tenants.md").read_text(encoding="utf-8")
READ = {"get", "list", "watch"}
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
OF_THE_CLUSTER = {"gangctl-queues-view", "gangctl-queues-config", "gangctl-approver"}


def rights(name: str) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in ROLES[name]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def written(name: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for _, resource, verb in rights(name):
        if verb not in READ:
            found.setdefault(resource, set()).add(verb)
    return found


def test_every_file_is_listed() -> None:
    listed = set(one(TENANTS / "kustomization.yaml")["resources"])
    assert listed == {path.name for path in TENANTS.glob("*.yaml")} - {"kustomization.yaml"}
    assert one(TENANTS / "kustomization.yaml")["kind"] == "Component"


def test_no_rule_has_a_wildcard() -> None:
    for name in ROLES:
        assert not any("*" in part for right in rights(name) for part in right)


@pytest.mark.parametrize("role", ["view", "edit", "admin"])
def test_each_role_is_aggregated_to_the_one_in_its_name(role: str) -> None:
    labels = ROLES[f"gangctl-tenant-{role}"]["metadata"]["labels"]
    assert {key for key in labels if key.startswith(AGGREGATE)} == {AGGREGATE + role}


def test_cluster_roles_are_not_aggregated() -> None:
    for name in OF_THE_CLUSTER:
        assert not any(key.startswith(AGGREGATE) for key in ROLES[name]["metadata"]["labels"])


def test_writes_are_the_listed_ones() -> None:
    assert {name: written(name) for name in ROLES} == {
        "gangctl-tenant-view": {},
        "gangctl-tenant-edit": {"jobsets": {"create", "update", "patch", "delete", "deletecollection"}},
        "gangctl-tenant-admin": {"workloads": {"delete"}},
        "gangctl-queues-view": {},
        "gangctl-queues-config": {},
        "gangctl-approver": {"gangpolicyexceptions": {"create", "update", "patch", "delete"}},
    }


def test_both_kinds_of_workload_are_distinguished_by_api_group() -> None:
    for group in ("scheduling.k8s.io", "kueue.x-k8s.io"):
        assert {
            verb for g, resource, verb in rights("gangctl-tenant-view") if (g, resource) == (group, "workloads")
        } == READ


def test_queues_view_lists_each_kind_of_the_cluster_that_queues_are_read_from() -> None:
    of_queues = (kind for kind in vars(kinds).values() if isinstance(kind, Resource) and not kind.namespaced)
    read = [kinds.RUNTIME_CLASSES, *(kind for kind in of_queues if (kind.group, kind.kind) in kinds.READERS)]
    for kind in read:
        assert (kind.group, kind.plural, "list") in rights("gangctl-queues-view")


def test_no_role_reads_secrets_or_changes_rbac() -> None:
    for name in ROLES:
        groups = {group for group, _, _ in rights(name)}
        assert "rbac.authorization.k8s.io" not in groups
        assert {resource for group, resource, _ in rights(name) if not group} <= {"namespaces", "configmaps"}
    (rule,) = ROLES["gangctl-queues-config"]["rules"]
    assert rule["resourceNames"] == ["kueue-manager-config"]
    assert rule["verbs"] == ["get"]


def test_every_role_is_in_the_docs() -> None:
    assert set(re.findall(r"^\| `(gangctl-[a-z-]+)` \|", TEXT, flags=re.MULTILINE)) == set(ROLES)


def operations(kind: str, name: str) -> list[dict[str, Any]]:
    found = []
    for patch in one(TENANTS / "managed" / "kustomization.yaml")["patches"]:
        if (patch["target"]["kind"], patch["target"]["name"]) == (kind, name):
            found += yaml.safe_load(patch["patch"])
    return found


def test_managed_namespaces_are_the_same_for_the_flag_the_webhooks_and_the_policy() -> None:
    (argument,) = [each["value"] for each in operations("Deployment", "gangctl")]
    (term,) = parse_selector(argument.removeprefix("--namespace-selector="))
    selector = "namespaceSelector/matchExpressions/-"
    places = {("MutatingAdmissionPolicyBinding", "gangctl-gangs"): [f"/spec/matchResources/{selector}"]}
    for each in documents(MANIFESTS / "base" / "webhooks.yaml"):
        webhooks = enumerate(each["webhooks"])
        paths = [f"/webhooks/{index}/{selector}" for index, webhook in webhooks if "namespaceSelector" in webhook]
        places[each["kind"], each["metadata"]["name"]] = paths
    for place, paths in places.items():
        added = operations(*place)
        assert [each["path"] for each in added] == paths
        assert all(each["value"] == term for each in added)
    label = f'{term["key"]}: "{term["values"][0]}"'
    assert label in TEXT, "Kueue's configuration in the docs selects the same"


def test_the_overlay_of_the_docs_refers_to_existing_files() -> None:
    shown = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)[0])
    for entry in [*shown["resources"], *shown["components"]]:
        assert (MANIFESTS / "cluster" / entry).resolve().is_dir()
