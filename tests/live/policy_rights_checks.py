"""What the rights for policies are for, as in :mod:`tests.live.rights_checks`: without it, and with it again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.components.addon import remove_namespace
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.rights import Right
from tests.live.rights_stage import Stage

GROUP: Final = "gangctl.dev/v1alpha1"
ADMISSION: Final = "admissionregistration.k8s.io/v1"
CONFIGURATIONS: Final = {
    "mutatingwebhookconfigurations": path_of(ADMISSION, "mutatingwebhookconfigurations", name="gangctl-defaults"),
    "validatingwebhookconfigurations": path_of(ADMISSION, "validatingwebhookconfigurations", name="gangctl-policies"),
}
PLAIN: Final = jobset("js", rj("w", 1, 1, 1))
WITH_LIMITS: Final[Object] = {
    "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    "paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"},
    "validations": [{"expression": "int(params.data.jobs) > 0", "message": "no jobs at all"}],
}
NEVER: Final = ({"name": "never", "expression": "false", "message": "none at all"},)
"""The rules of a policy that every JobSet breaks, in a namespace in which there are some already."""


class Policies:
    """A policy and an exception from it, for the stage's namespace only, which is not refused for want of gangctl."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.api = stage.api
        self.name = f"p-{stage.cluster.namespace[-8:]}"
        self.policy = path_of(GROUP, "gangpolicies", name=self.name)
        self.exception = path_of(GROUP, "gangpolicyexceptions", name=self.name)
        self.report = stage.cluster.path("wgpolicyk8s.io/v1alpha2", "policyreports", "gangctl")

    async def create(self, labels: Mapping[str, str] | None = None, **spec: Any) -> None:
        """The policy, for namespaces with ``labels`` or the stage's; without fields of its own it has a rule and a
        default.
        """
        if not spec:
            spec = {"validations": [{"expression": "true"}], "defaults": {"queue": "q"}}
        here = {"matchLabels": labels or {"kubernetes.io/metadata.name": self.stage.cluster.namespace}}
        spec = {"failurePolicy": "Ignore", "matchConstraints": {"namespaceSelector": here}, **spec}
        await self._create("gangpolicies", "GangPolicy", spec)

    async def allow(self) -> None:
        """The exception."""
        until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        spec = {"policies": [{"name": self.name}], "owner": "o", "reason": "r", "expiresAt": until}
        await self._create("gangpolicyexceptions", "GangPolicyException", spec)

    async def limits(self) -> None:
        """What the policy reads."""
        body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"jobs": "1"}}
        await self.api.create(self.stage.cluster.path("v1", "configmaps"), body)

    async def _create(self, plural: str, kind: str, spec: Object) -> None:
        body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": self.name}, "spec": spec}
        await self.api.create(path_of(GROUP, plural), body)

    async def has_status(self, path: str, reason: str = "InForce") -> None:
        """Wait until a status has the condition."""
        await read_until(
            lambda: self.api.get(path),
            lambda obj: reason in {one["reason"] for one in (obj.get("status") or {}).get("conditions", [])},
            f"the status to say {reason}",
        )

    async def without_status(self, path: str) -> None:
        """It has no status."""
        assert "status" not in await self.api.get(path)

    async def counted(self) -> None:
        """Wait until the status has what a scan found."""
        await read_until(
            lambda: self.api.get(self.policy),
            lambda obj: (obj.get("status") or {}).get("results", {}).get("fail"),
            "the scan's counts",
        )

    async def reported(self, words: str = "none at all") -> None:
        """Wait until the report has the result."""

        async def seen() -> bool:
            report = await self.api.get(self.report)
            if words not in str(report["results"]):
                raise NotYet(str(report))
            return True

        await wait_for(seen, f"the report to say {words}", tolerate=(ApiFailure,))

    async def unreported(self) -> None:
        """Wait until there is no report."""
        await read_until(lambda: self.api.found(self.report), lambda report: report is None, "the report to go")

    async def registered(self, *, gone: bool = False, defaults: bool = True) -> None:
        """Wait until both configurations, or that of rules alone, have their webhooks, or are gone."""
        paths = [path for path in CONFIGURATIONS.values() if defaults or not path.endswith("gangctl-defaults")]

        async def seen() -> bool:
            for path in paths:
                hooks = (await self.api.found(path) or {}).get("webhooks")
                if bool(hooks) is gone:
                    raise NotYet(f"{path}: {hooks}")
            return True

        await wait_for(seen, "the configurations to follow the policies")

    async def delete(self) -> None:
        for path in (self.policy, self.exception):
            await self.api.remove(path)


@asynccontextmanager
async def policies(stage: Stage) -> AsyncIterator[Policies]:
    """What a check makes is gone after it."""
    made = Policies(stage)
    try:
        yield made
    finally:
        await made.delete()


async def live(stage: Stage) -> None:
    """A policy with a parameter and a default, and an exception: in force, changed, and withdrawn."""
    async with policies(stage) as made:
        await made.limits()
        await made.create(**WITH_LIMITS, defaults={"queue": "q"})
        await made.allow()
        for path in (made.policy, made.exception):
            await made.has_status(path)
        await made.registered()

        async def defaulted() -> bool:
            answer = await stage.cluster.create_jobset(jobset("evaluated", rj("w", 1, 1, 1)), dry_run=True)
            return bool(answer["metadata"].get("labels"))

        await wait_for(defaulted, what="the API server to ask for defaults")
        # What exists is scanned after each change of policies: a report comes, changes and goes.
        await wait_for(lambda: stage.api.get(made.report), what="the report", tolerate=(ApiFailure,))
        await stage.api.delete(made.exception)
        await stage.api.patch(made.policy, {"spec": {"validations": [*NEVER]}})
        await made.reported()
    await made.registered(gone=True)
    await made.unreported()


async def watches_its_configurations(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Changes by others are reverted at once, not at the next check half a minute later."""
    async with policies(stage) as made:
        await made.create()
        await made.registered()
        await stage.gangctl.process.stop()
        yield
        await stage.start()
        # Who may not list has seen nothing, and sees nothing later.
        for right in rights:
            await stage.reported(right)
        if rights[0].verb == "watch":
            await stage.blind(*rights)
        for right in rights:
            await stage.api.patch(CONFIGURATIONS[right.resource], {"webhooks": []})
        await stage.refused_again(*rights)
        for right in rights:
            repaired = (await stage.api.get(CONFIGURATIONS[right.resource])).get("webhooks")
            await stage.unseen(bool(repaired), right)
        yield
        await made.registered()


async def fills_its_configurations(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without it no webhook is called, and gangctl does not become ready."""
    async with policies(stage) as made:
        await made.create()
        await made.registered()
        await stage.gangctl.process.stop()
        for path in CONFIGURATIONS.values():
            await stage.api.patch(path, {"webhooks": []})
        yield
        await stage.launch()
        await stage.reported(rights[0])
        await stage.unready()
        assert not (await stage.api.get(CONFIGURATIONS[rights[0].resource])).get("webhooks")
        yield
        await stage.ready()
        await made.registered()


async def withdraws(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """What no policy needs any more stays registered without it."""
    async with policies(stage) as made:
        await made.create()
        await made.registered()
        yield
        await made.delete()
        await stage.reported(rights[0])
        assert (await stage.api.get(CONFIGURATIONS[rights[0].resource]))["webhooks"]
        yield
        await made.registered(gone=True)


async def watches_policies(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """What comes after the start is not seen."""
    async with policies(stage) as made:
        await stage.gangctl.process.stop()
        yield
        await stage.start()
        await stage.blind(*rights)
        await made.create()
        await made.allow()
        for path in (made.policy, made.exception):
            await stage.unseen("status" in await stage.api.get(path), *rights)
        yield
        for path in (made.policy, made.exception):
            await made.has_status(path)


async def tells(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Policies apply, and their status does not show it."""
    async with policies(stage) as made:
        path = made.policy if rights[0].resource.startswith("gangpolicies") else made.exception
        yield
        await made.create()
        await made.allow()
        await stage.reported(rights[0])
        await made.registered()
        await made.without_status(path)
        yield
        await made.has_status(path)


async def watches_namespaces(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Nothing can be created in a namespace that is not known: it might be one that a policy is about.

    Watches that are refused again and again end in a new list, which makes known what exists: each look is into a
    namespace of its own, and the delays between lists grow.
    """
    labels = {"later-than": stage.cluster.namespace}
    later: list[Cluster] = []
    async with policies(stage) as made:
        await made.create(labels, validations=[{"expression": "true"}], failurePolicy="Fail")
        await made.registered(defaults=False)
        await stage.gangctl.process.stop()
        yield
        await stage.start()
        await stage.reported(rights[0])

        async def refusal() -> bool:
            cluster = Cluster(stage.cluster.plane, f"{stage.cluster.namespace}-{len(later)}")
            body = {"metadata": {"name": cluster.namespace, "labels": labels}}
            await stage.api.create(path_of("v1", "namespaces"), body)
            later.append(cluster)
            try:
                await cluster.create_jobset(PLAIN, dry_run=True)
            except ApiFailure as failure:
                if failure.status == HTTPStatus.SERVICE_UNAVAILABLE:
                    return True
                raise
            return False

        await wait_for(refusal, what="the JobSet to be refused", interval=0.5)
        yield
        await wait_for(
            lambda: later[-1].create_jobset(PLAIN, dry_run=True),
            what="the namespace to be known",
            tolerate=(ApiFailure,),
        )
        for each in later:
            await remove_namespace(stage.api, each.namespace)


async def finds_what_exists(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without it no scan gets to its end; a gangctl that starts has no gangs to keep, and does not become ready."""
    async with policies(stage) as made:
        await stage.jobset()
        yield
        await made.create(validations=[*NEVER])
        await stage.reported(rights[0])
        await made.has_status(made.policy)
        assert "results" not in (await stage.api.get(made.policy))["status"]
        await stage.gangctl.process.stop()
        await stage.launch()
        await stage.reported(rights[0], len(stage.refused(rights[0])) + 1)
        await stage.unready()
        yield
        await stage.ready()
        await made.counted()


async def looks_for_reports(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without it there are none, which is reported once, and the status has the counts all the same."""
    async with policies(stage) as made:
        await stage.jobset()
        await stage.gangctl.process.stop()
        yield
        await stage.start()
        await stage.reported(rights[0])
        await made.create(validations=[*NEVER])
        await made.counted()
        await stage.reported(rights[0], len(stage.refused(rights[0])) + 1)
        await made.unreported()
        assert stage.since.count("no policy reports") == 1
        yield
        await made.reported()


async def makes_reports(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    async with policies(stage) as made:
        await stage.jobset()
        yield
        await made.create(validations=[*NEVER])
        await made.counted()
        await stage.reported(rights[0])
        await made.unreported()
        yield
        await made.reported()


async def changes_reports(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without it a report has the results of the first scan."""
    async with policies(stage) as made:
        await stage.jobset()
        await made.create(validations=[*NEVER])
        await made.reported()
        yield
        await stage.api.patch(made.policy, {"spec": {"validations": [{**NEVER[0], "message": "not one"}]}})
        await stage.reported(rights[0])
        await made.reported()
        yield
        await made.reported("not one")


async def withdraws_reports(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without it a report outlives its policies."""
    async with policies(stage) as made:
        await stage.jobset()
        await made.create(validations=[*NEVER])
        await made.reported()
        yield
        await made.delete()
        await stage.reported(rights[0])
        await made.reported()
        yield
        await made.unreported()
