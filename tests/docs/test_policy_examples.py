"""Every policy of every page, as it is shown there, leaves alone a gang that was there before it.

The page's objects are applied beside gangctl as a process. What Kueue, a user and the garbage collector then write to
older JobSets passes: those of the page, and one that is large and has neither queue nor requests. The policies of
policies/ are applied with Deny and Fail, beside the tables that their pages show.
"""

from __future__ import annotations

import copy
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gangctl.sandbox.api import Api, Caller
from gangctl.sandbox.requests import DeleteOptions
from gangctl.sandbox.server import Sandbox, SandboxOptions
from gangctl.sandbox.simulated import SimulatedControllers
from tests.controlplane.wait import NotYet, wait_for
from tests.docpages import ROOT
from tests.faults.policies import define
from tests.jobsets import jobset, rj
from tests.policies.pack import PACK, shipped
from tests.sandbox.gangctlprocess import controller

Object = dict[str, Any]

ADMIN: Final = Caller("admin", ("system:masters",))
KUEUE: Final = Caller("system:serviceaccount:kueue-system:kueue-controller-manager", ("system:masters",))
POLICIES: Final = {
    "GangPolicy": "gangpolicies.gangctl.dev",
    "GangPolicyException": "gangpolicyexceptions.gangctl.dev",
    "ConfigMap": "configmaps",
}
JOBSETS: Final = "jobsets.jobset.x-k8s.io"
HOLD: Final = "example.com/hold"
WEBHOOKS: Final = tuple(
    f"{kind}webhookconfigurations.admissionregistration.k8s.io" for kind in ("mutating", "validating")
)
OF_POLICIES: Final = {"gangctl-defaults", "gangctl-policies"}


def shown(page: Path) -> Iterator[Object]:
    """The objects of the YAML blocks of a page, also of indented ones."""
    for indent, block in re.findall(r"^( *)```yaml\n(.*?)^ *```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        if re.search(rf"^{indent}kind: ({'|'.join([*POLICIES, 'JobSet'])})$", block, re.MULTILINE):
            yield from yaml.safe_load_all(textwrap.dedent(block))


def wanted(objects: Iterator[Object], *kinds: str) -> list[Object]:
    return [each for each in objects if each["kind"] in kinds]


PAGES: Final = {
    str(page.relative_to(ROOT)): page
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    if wanted(shown(page), *POLICIES)
}
SHIPPED: Final = "policies/"


def examples(name: str) -> list[Object]:
    """What is applied; ConfigMaps first, because policies read them."""
    if name != SHIPPED:
        found = wanted(shown(PAGES[name]), *POLICIES)
    else:
        denying = {"validationActions": ["Deny"], "failurePolicy": "Fail"}
        found = [{**policy.document, "spec": {**policy.spec, **denying}} for policy in shipped()]
        found += [each for page in sorted(PACK.glob("*/README.md")) for each in wanted(shown(page), "ConfigMap")]
    return sorted(found, key=lambda each: [*reversed(POLICIES)].index(each["kind"]))


def older(name: str) -> list[Object]:
    """JobSets that were there before: suspended, as Kueue has them, and held by a finalizer."""
    found = [] if name == SHIPPED else wanted(shown(PAGES[name]), "JobSet")
    large = jobset("large", rj("w", 90, 90, 90), rj("v", 2), mode="Gang", namespace="research")
    found = [*(each for each in found if "gangctl.dev/gang-mode" in str(each)), large]
    for raw in found:
        raw["metadata"] |= {"finalizers": [HOLD]}
        raw["spec"]["suspend"] = True
    return found


def test_the_pages_with_policies_are_known() -> None:
    assert set(PAGES) == {"docs/howto/queues.md", "docs/howto/stranded.md", "docs/kueue.md", "docs/policies.md"}


async def place(api: Api, raw: Object) -> None:
    """Create an object, in a namespace that is there."""
    kind = api.kind(JOBSETS if raw["kind"] == "JobSet" else POLICIES[raw["kind"]])
    namespace = raw["metadata"].get("namespace", "") if kind.namespaced else ""
    known = {each["metadata"]["name"] for each in (await api.list(api.kind("namespaces"))).items}
    if namespace and namespace not in known:
        await api.create(api.kind("namespaces"), "", {"metadata": {"name": namespace}}, ADMIN)
    await api.create(kind, namespace, copy.deepcopy(raw), ADMIN)


async def in_force(api: Api, policies: list[str]) -> None:
    """Wait until all are, and their webhooks are registered."""

    async def seen() -> bool:
        live = (await api.list(api.kind(POLICIES["GangPolicy"]))).items
        reasons = {each["metadata"]["name"]: each.get("status", {}).get("conditions", [{}])[0] for each in live}
        hooks = [
            hook
            for kind in WEBHOOKS
            for each in (await api.list(api.kind(kind))).items
            if each["metadata"]["name"] in OF_POLICIES
            for hook in each.get("webhooks") or ()
        ]
        if {name for name, each in reasons.items() if each.get("reason") == "InForce"} != {*policies} or not hooks:
            raise NotYet(str(reasons))
        return True

    await wait_for(seen, what="the policies to be in force")


async def live_through(api: Api, raw: Object) -> None:
    """Kueue starts the JobSet, a user labels it, and deletes it in the foreground."""
    kind, namespace, name = api.kind(JOBSETS), raw["metadata"]["namespace"], raw["metadata"]["name"]

    async def patch(change: Object, caller: Caller) -> None:
        await api.patch(kind, namespace, name, change, "merge", caller)

    replicated = (await api.get(kind, namespace, name))["spec"]["replicatedJobs"]
    for each in replicated:
        pods = each["template"]["spec"]["template"]
        pods["metadata"] = {"labels": {"kueue.x-k8s.io/podset": each["name"]}, "annotations": {"a": "b"}}
        pods["spec"]["nodeSelector"] = {"pool": "a"}
    await patch({"spec": {"suspend": False, "replicatedJobs": replicated}}, KUEUE)
    await patch({"metadata": {"labels": {"team": "a"}}}, ADMIN)
    await patch({"spec": {"suspend": True}}, KUEUE)
    await api.delete(kind, namespace, name, ADMIN, DeleteOptions(propagation="Foreground"))
    await patch({"metadata": {"labels": {"team": "b"}}}, ADMIN)
    live = await api.get(kind, namespace, name)
    await patch({"metadata": {"finalizers": [each for each in live["metadata"]["finalizers"] if each != HOLD]}}, ADMIN)

    async def gone() -> bool:
        found = [each["metadata"]["name"] for each in (await api.list(kind, namespace)).items]
        if name in found:
            raise NotYet(f"{found} are there")
        return True

    await wait_for(gone, what=f"{name} to be deleted")


@pytest.mark.parametrize("name", [*PAGES, SHIPPED])
async def test_its_policies_leave_older_gangs_alone(name: str, tmp_path: Path) -> None:
    async with Sandbox(SandboxOptions(minor="1.37")) as sandbox:
        api = sandbox.api
        await define(api, ADMIN)
        async with SimulatedControllers(api, roles=["jobset"]), controller(sandbox, tmp_path):
            before = older(name)
            for raw in before:
                await place(api, raw)
            applied = examples(name)
            for raw in applied:
                await place(api, raw)
            await in_force(api, [each["metadata"]["name"] for each in applied if each["kind"] == "GangPolicy"])
            for raw in before:
                await live_through(api, raw)
