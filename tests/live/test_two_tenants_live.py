"""What a tenant can know of another one: all that every role of docs/tenants.md reads, as the page's table says."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.cli import run
from tests.cli.run import Answer, process
from tests.controlplane.api import ApiClient, Object, path_of
from tests.controlplane.components import kueue
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.docs.tables import rows
from tests.live.admission import install
from tests.live.cluster import JOBSETS
from tests.live.gangctl import Gangctl, path_to, prepare
from tests.live.readable import Readable, Texts, rules_of
from tests.live.twotenants import OWN, REFUSED, Fact, TwoTenants
from tests.manifests.definitions import gangs, policies
from tests.manifests.files import MANIFESTS, ROOT, documents
from tests.policy.reportcrd import policy_report_definition

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]

RBAC: Final = "rbac.authorization.k8s.io/v1"
ADMISSION: Final = "admission"
"""In place of a resource: answers to requests that create JobSets."""
HIDDEN: Final = "another namespace's workload"

SHIPPED: Final = {
    role["metadata"]["name"]: role for role in documents(MANIFESTS / "tenants") if role["kind"] == "ClusterRole"
}
OF_NAMESPACES: Final = ("view", "edit", "admin")
PLACES: Final = {
    **dict.fromkeys((*OF_NAMESPACES, *(f"gangctl-tenant-{role}" for role in OF_NAMESPACES)), OWN),
    "gangctl-queues-view": "",
    "gangctl-queues-config": kueue.NAMESPACE,
    "gangctl-approver": "",
}
"""The namespace in which a role is bound, empty for the cluster."""
TEAM: Final = ("edit", "gangctl-queues-view", "gangctl-queues-config")
"""All that a tenant can have."""
COMMANDS: Final = (
    *(("why", name) for name in ("behind", "evicted", "ousted")),
    ("get",),
    ("describe", "evicted"),
    ("top",),
    ("fit", "behind"),
    ("fit", "evicted"),
    ("queue", "list"),
    ("queue", "describe", "strict"),
    ("queue", "describe", "contested", "--cluster-queue"),
    ("policy", "list"),
    ("policy", "scan"),
    ("policy", "export"),
)


@dataclass(frozen=True)
class User:
    """A ServiceAccount of the tenant's, known by its token."""

    name: str
    client: ApiClient
    kubeconfig: Path

    async def refusals(self) -> list[str]:
        """Bodies and warnings of the answers to requests that gangctl and its policies refuse or warn of."""
        texts = []
        for raw in REFUSED:
            body = {**raw, "metadata": {**raw["metadata"], "namespace": OWN}}
            answer = await self.client.exchange(
                "POST",
                path_of(JOBSETS, "jobsets", namespace=OWN),
                data=json.dumps(body),
                parameters={"dryRun": "All"},
                headers={"Content-Type": "application/json"},
            )
            texts.append("\n".join([answer.text, *answer.headers.getall("Warning", [])]))
        return texts

    async def ask(self, *arguments: str) -> Answer:
        """Run ``gangctl``; in a process of its own where it has workers."""
        arguments += ("--kubeconfig", str(self.kubeconfig))
        return await (asyncio.to_thread(process, *arguments) if arguments[0] == "policy" else run.ask(*arguments))


async def user(plane: ControlPlane, *roles: str) -> User:
    """A user with these roles, once they are in force."""
    name = f"user-{secrets.token_hex(3)}"
    accounts = path_of("v1", "serviceaccounts", namespace=OWN)
    await plane.api.create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    for role in roles:
        kind = "RoleBinding" if PLACES[role] else "ClusterRoleBinding"
        metadata = {"name": f"{name}-{role}", **({"namespace": PLACES[role]} if PLACES[role] else {})}
        body: Object = {"apiVersion": RBAC, "kind": kind, "metadata": metadata}
        body["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        body["subjects"] = [{"kind": "ServiceAccount", "name": name, "namespace": OWN}]
        await plane.api.create(path_to(body).rpartition("/")[0], body)
    token = str((await plane.api.create(f"{accounts}/{name}/token", {"spec": {}}))["status"]["token"])
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"] = [{"name": "user", "user": {"token": token}}]
    config["contexts"][0]["context"]["namespace"] = OWN
    path = plane.directory / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    made = User(name, ApiClient(plane.url, ca=plane.ca, token=token), path)

    async def in_force() -> bool:
        """Kubernetes adds gangctl's rules to its roles, and sees bindings, with a delay."""
        for role in roles:
            granted = await rules_of(made.client, PLACES[role] or OWN)
            own = SHIPPED[f"gangctl-tenant-{role}" if role in OF_NAMESPACES else role]
            if lacking := [rule for rule in own["rules"] if rule not in granted["resourceRules"]]:
                raise NotYet(f"{role} lacks {lacking}")
        return True

    await wait_for(in_force, what=f"{', '.join(roles)} to be in force")
    return made


def facts(texts: Iterable[str], marks: Mapping[Fact, list[str]]) -> set[Fact]:
    """What these texts give away."""
    together = "\n".join(texts)
    return {fact for fact, written in marks.items() if any(mark in together for mark in written)}


def places(read: Texts, marks: Mapping[Fact, list[str]]) -> dict[Fact, set[str]]:
    """Where each fact stands."""
    given = {place: facts(texts, marks) for place, texts in read.items()}
    return {fact: {place for place, found in given.items() if fact in found} for fact in Fact}


def of_the_page() -> dict[str, dict[Fact, set[str]]]:
    """The table of docs/tenants.md: where each fact stands, by column."""
    text = (ROOT / "docs" / "tenants.md").read_text(encoding="utf-8")
    header, _, *table = rows(text.partition("\n## Who sees what of other tenants\n")[2].partition("\n## ")[0])
    assert [row[0] for row in table] == [*Fact]
    return {
        column: {Fact(row[0]): set(re.findall(r"`([^`]+)`", row[number])) for row in table}
        for number, column in enumerate(header)
        if number
    }


async def test_each_role_reads_of_another_tenant_what_the_page_lists() -> None:
    crds = [*gangs.definitions().values(), *policies.definitions().values(), policy_report_definition()]
    async with ControlPlane.start("1.37", ("jobset", "kueue"), crds=crds) as plane:
        await prepare(plane)
        await install(plane.api, "gang-objects")
        for shipped in SHIPPED.values():
            await plane.api.create(path_of(RBAC, "clusterroles"), shipped)
        async with Gangctl(plane, "--gang-objects", "--policy-scan-period=1", "--discovery-period=1") as gangctl:
            tenants = TwoTenants(plane)
            await tenants.settle()
            users = {role: await user(plane, role) for role in PLACES}
            team = await user(plane, *TEAM)
            readable, marks = await Readable.on(plane.api), await tenants.marks()
            read = {}
            for role, one in {**users, "team": team}.items():
                read[role] = {**await readable.by(one.client), ADMISSION: await one.refusals()}
                # As gangctl's listener for metrics with --metrics-secure would find.
                assert (await one.client.exchange("GET", "/metrics")).status == 403
            everything = await readable.by(plane.api)
            printed = {command: await team.ask(*command) for command in COMMANDS}
            assert "Traceback" not in gangctl.log

    known = {role: places(texts, marks) for role, texts in read.items()}
    seen = {
        "`view`, `edit`, `admin`": {fact: set().union(*(known[role][fact] for role in OF_NAMESPACES)) for fact in Fact},
        **{f"`{role}`": known[role] for role in PLACES if not PLACES[role] or role == "gangctl-queues-config"},
    }
    page = of_the_page()
    assert [*seen] == [*page]
    differences = [
        f"{column}, {fact}: {sorted(where[fact])}, and {sorted(page[column][fact])} on the page"
        for column, where in seen.items()
        for fact in Fact
        if where[fact] != page[column][fact]
    ]
    assert differences == []
    assert all(places(everything, marks).values()), "what no one can read proves nothing"
    for role in OF_NAMESPACES:
        tenant = known[f"gangctl-tenant-{role}"]
        assert all(tenant[fact] <= known[role][fact] for fact in Fact)
    for fact in Fact:
        assert known["team"][fact] == set().union(*(known[role][fact] for role in TEAM))
    # The program has no rights of its own.
    for command, answer in printed.items():
        shown = facts([answer.out, answer.err], marks)
        assert {fact for fact in shown if not known["team"][fact]} == set(), command
    for place in ("gangs.gangctl.dev", "events", ADMISSION):
        assert HIDDEN in "".join(read["edit"][place]), f"{place} says what it does not name"
