"""A namespace with GangPolicies of its own, and a gangctl that goes by them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.cli.run import Answer, process
from tests.controlplane.api import Answer as Response
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS, Cluster
from tests.live.definitions import serve
from tests.live.gangctl import Gangctl
from tests.manifests.definitions.policies import definitions

GROUP: Final = "gangctl.dev/v1alpha1"
REPORTS: Final = "wgpolicyk8s.io/v1alpha2"
_SCAN: Final = ("list", "policyreports")
PLAIN: Final = jobset("js", rj("w", 1, 2, 2))
LIMITS: Final[Object] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ganglimits.gangs.example.org"},
    "spec": {
        "group": "gangs.example.org",
        "scope": "Namespaced",
        "names": {"plural": "ganglimits", "singular": "ganglimit", "kind": "GangLimit", "listKind": "GangLimitList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
CONFIGURATIONS: Final = {
    "gangctl-policies": "validatingwebhookconfigurations",
    "gangctl-defaults": "mutatingwebhookconfigurations",
}


@dataclass
class Policed:
    """A namespace with policies of its own, and a gangctl."""

    cluster: Cluster
    gangctl: Gangctl
    made: list[str] = field(default_factory=list)

    async def create(self, kind: str, name: str, spec: Object, annotations: Mapping[str, str] | None = None) -> str:
        """Create or replace a policy or an exception, and clean it up later; its path."""
        name = f"{name}-{self.cluster.namespace[-6:]}"
        path = path_of(GROUP, f"{kind.lower()}s" if kind != "GangPolicy" else "gangpolicies", name=name)
        metadata = {"name": name, "annotations": dict(annotations or {})}
        body = {"apiVersion": GROUP, "kind": kind, "metadata": metadata, "spec": spec}
        await self.cluster.api.patch(path, body, kind="apply", fieldManager="test", force=True)
        if path not in self.made:
            self.made.append(path)
        return path

    async def policy(self, name: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> str:
        """A policy for this namespace only."""
        constraints = spec.pop("matchConstraints", {})
        here = {"matchLabels": {"kubernetes.io/metadata.name": self.cluster.namespace}}
        constraints = {"namespaceSelector": here, **constraints}
        return await self.create("GangPolicy", name, {**spec, "matchConstraints": constraints}, annotations)

    async def in_force(self, path: str, *, reason: str = "InForce", words: str = "") -> Object:
        """Wait until the status of the newest generation has the condition; returns it."""

        async def said() -> Object:
            live = await self.cluster.api.get(path)
            conditions: list[Object] = live.get("status", {}).get("conditions", [])
            for each in conditions:
                fresh = each["observedGeneration"] == live["metadata"]["generation"]
                if fresh and each["reason"] == reason and words in each["message"]:
                    return each
            raise NotYet(str(live.get("status")))

        return await wait_for(said, what=f"{path} to be {reason}")

    async def dry(self, raw: Object = PLAIN) -> Response:
        """What a dry run answers, headers included."""
        body = {**raw, "metadata": {**raw["metadata"], "namespace": self.cluster.namespace}}
        return await self.cluster.api.exchange(
            "POST",
            self.cluster.path(JOBSETS, "jobsets"),
            data=json.dumps(body),
            parameters={"dryRun": "All"},
            headers={"Content-Type": "application/json"},
        )

    async def until(self, status: int, raw: Object = PLAIN, words: str = "") -> Response:
        """Wait until a dry run is answered so: the API server learns of a webhook when it gets round to it."""
        return await read_until(
            lambda: self.dry(raw),
            lambda answer: answer.status == status and words in answer.text + str(answer.headers.getall("Warning", [])),
            f"status {status} {words}",
        )

    async def counted(self, path: str, **results: int) -> Object:
        """Wait until the status of a policy has these results of a scan, and 0 for others; the status."""
        wanted = {"pass": 0, "fail": 0, "error": 0, "exempt": 0} | {name.strip("_"): n for name, n in results.items()}

        async def seen() -> Object:
            status: Object = (await self.cluster.api.get(path)).get("status") or {}
            if status.get("results") != wanted:
                raise NotYet(str(status))
            return status

        return await wait_for(seen, what=f"{path} to count {wanted}")

    async def reported(self, **summary: int) -> Object:
        """Wait until the namespace's PolicyReport has this summary, and 0 for the rest; the report."""
        wanted = {"pass": 0, "fail": 0, "warn": 0, "error": 0, "skip": 0}
        wanted |= {name.strip("_"): n for name, n in summary.items()}

        async def seen() -> Object:
            report = await self.cluster.api.get(self.cluster.path(REPORTS, "policyreports", "gangctl"))
            if report["summary"] != wanted:
                raise NotYet(str(report["summary"]))
            return report

        return await wait_for(seen, what=f"a report with {wanted}", tolerate=(ApiFailure,))

    async def scans(self, count: int) -> None:
        """Wait until that many further scans of gangctl are over: each begins with a list of reports."""
        since = self.cluster.plane.audit_position

        async def seen() -> bool:
            # Controllers of the plane list reports as well, as they do whatever there is.
            entries = [e for e in self.cluster.plane.audit(since) if e["user"].get("username") == self.gangctl.user]
            asked = [e for e in entries if (e["verb"], e.get("objectRef", {}).get("resource")) == _SCAN]
            if len(asked) <= count:
                raise NotYet(f"{len(asked)} have begun")
            return True

        await wait_for(seen, what=f"{count} scans")

    async def ask(self, *arguments: str) -> Answer:
        """``gangctl policy`` as the administrator."""
        config = ("--kubeconfig", str(self.cluster.plane.kubeconfig))
        return await asyncio.to_thread(process, "policy", *arguments, *config)

    async def gone(self) -> None:
        """Delete the policies, and wait until no webhook is called any more."""
        for path in self.made:
            await self.cluster.api.delete(path)
        self.made.clear()

        async def unregistered() -> bool:
            for name, plural in CONFIGURATIONS.items():
                live = await self.cluster.api.list(path_of("admissionregistration.k8s.io/v1", plural))
                if name in {each["metadata"]["name"] for each in live}:
                    raise NotYet(f"{name} is there")
            return True

        await wait_for(unregistered, what="the configurations to go with the policies")


@asynccontextmanager
async def policing(cluster: Cluster, *arguments: str, defined: bool = True) -> AsyncIterator[Policed]:
    """gangctl with these flags; unless ``defined``, the caller installs the definitions of policies."""
    if defined:
        await serve(cluster.api, definitions().values())
    async with Gangctl(cluster.plane, *arguments) as gangctl:
        made = Policed(cluster, gangctl)
        try:
            yield made
        finally:
            if not gangctl.process.running:
                await gangctl.process.start()
            await made.gone()
        assert "Traceback" not in gangctl.log


def named(name: str, **labels: str) -> Object:
    """A JobSet of two pods."""
    return {**PLAIN, "metadata": {"name": name, "labels": labels}}


async def except_from(policed: Policed, policy: str, name: str, life: timedelta, **match: list[str]) -> str:
    """Create or replace an exception that ends after ``life``; its path."""
    until = (datetime.now(UTC) + life).isoformat()
    spec = {"policies": [{"name": policy.rpartition("/")[2]}], "match": match, "owner": "team", "reason": "moving"}
    return await policed.create("GangPolicyException", name, {**spec, "expiresAt": until})
