"""What each right of the components is for: what does not happen without it, and happens once it is granted again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from tests.controlplane.wait import NotYet, wait_for
from tests.live.admission import CHECKS, PARAMETERS, Queues, holds
from tests.live.gangctl import Gangctl
from tests.live.rights import Right, refusals
from tests.manifests.files import MANIFESTS, documents

Check = Callable[["Context"], AsyncGenerator[None, None]]


def granted(component: str) -> list[Right]:
    """Every right of a component."""
    (role,) = [each for each in documents(MANIFESTS / component) if each["kind"] == "ClusterRole"]
    name = role["metadata"]["name"]
    return [
        Right("ClusterRole", name, group, resource, verb, one)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for one in rule.get("resourceNames") or ("",)
    ]


class Context:
    """A namespace, a gangctl, and the right that is taken from it."""

    def __init__(self, queues: Queues, gangctl: Gangctl, right: Right) -> None:
        self.queues = queues
        self.gangctl = gangctl
        self.right = right
        self._since = queues.cluster.plane.audit_position

    async def refused(self, times: int = 1) -> None:
        """Wait until the API server has refused something for want of the right, so many times."""

        async def seen() -> bool:
            audited = self.queues.cluster.plane.audit(self._since)
            own = [entry for entry in audited if entry["user"].get("username") == self.gangctl.user]
            if (found := sum(self.right.covers(entry) for entry in refusals(own))) < times:
                raise NotYet(f"{found} of {len(own)} requests")
            return True

        await wait_for(seen, what=f"{self.right} to be missed")


async def declares(context: Context) -> AsyncGenerator[None, None]:
    """Without it a new check does not become active."""
    yield
    check = await context.queues.check("gang")
    await context.refused()
    assert "status" not in await context.queues.api.get(f"{CHECKS}/{check}")
    yield
    await context.queues.condition(check, "True", "Active")


async def follows_parameters(context: Context) -> AsyncGenerator[None, None]:
    """Without it a check stays bad although its parameters have come."""
    check = await context.queues.check("gang", parameters=f"late-{context.queues.name[-6:]}")
    await context.queues.condition(check, "False", "BadParametersRef")
    await context.gangctl.process.stop()
    yield
    await context.gangctl.process.start()
    # A list follows the fifth refusal of a watch, and shows everything; so does the next one, a long time later.
    await context.refused(6 if context.right.verb == "watch" else 1)
    since = context.queues.cluster.plane.audit_position
    name = await context.queues.parameters("late")
    live = await context.queues.api.get(f"{CHECKS}/{check}")
    if "BadParametersRef" not in {each["reason"] for each in live["status"]["conditions"]}:

        async def listed() -> bool:
            own = (
                each
                for each in context.queues.cluster.plane.audit(since)
                if each["user"]["username"] == context.gangctl.user
            )
            resources = {each.get("objectRef", {}).get("resource") for each in own if each["verb"] == "list"}
            return "gangadmissionparameters" in resources

        await wait_for(listed, what="the list that has told of them: no watch has")
    yield
    await context.queues.condition(check, "True", "Active")
    await context.queues.api.delete(f"{PARAMETERS}/{name}")


async def says_ready(context: Context) -> AsyncGenerator[None, None]:
    """Without it a gang is made, and its JobSet never starts."""
    check = await context.queues.check("gang")
    await context.queues.condition(check, "True", "Active")
    await context.queues.open((check,))
    await context.queues.active()
    yield
    await context.queues.submit()
    await context.refused()
    assert not holds(await context.queues.workload("js"), "Admitted")
    yield
    await wait_for(lambda: context.queues.started("js"), what="the JobSet to start")


async def asks_policies(context: Context) -> AsyncGenerator[None, None]:
    """Without it no JobSet starts, as policies might deny it by now."""
    name = f"fine-{context.queues.name[-6:]}"
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": context.queues.name}}}
    spec = {"matchConstraints": here, "validations": [{"expression": "true"}]}
    body = {"apiVersion": "gangctl.dev/v1alpha1", "kind": "GangPolicy", "metadata": {"name": name}, "spec": spec}
    path = f"/apis/gangctl.dev/v1alpha1/gangpolicies/{name}"
    await context.queues.api.patch(path, body, kind="apply", fieldManager="test")

    async def in_force() -> bool:
        status = (await context.queues.api.get(path)).get("status", {})
        return [each["status"] for each in status.get("conditions", [])] == ["True"]

    await wait_for(in_force, what="the policy to be in force")
    async for part in says_ready(context):
        yield part
    await context.queues.api.delete(path)
