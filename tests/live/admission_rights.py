"""What each right of the components is for: what does not happen without it, and happens once it is granted again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from tests.controlplane.wait import NotYet, wait_for
from tests.live.admission import CHECKS, PARAMETERS, Queues, gates_of, holds
from tests.live.gangctl import Gangctl
from tests.live.rights import Right, refusals
from tests.manifests.files import MANIFESTS, documents

Check = Callable[["Scene"], AsyncGenerator[None, None]]


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


class Scene:
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


async def declares(scene: Scene) -> AsyncGenerator[None, None]:
    """Without it nobody says that a new check is active."""
    yield
    check = await scene.queues.check("gang")
    await scene.refused()
    assert "status" not in await scene.queues.api.get(f"{CHECKS}/{check}")
    yield
    await scene.queues.condition(check, "True", "Active")


async def follows_parameters(scene: Scene) -> AsyncGenerator[None, None]:
    """Without it a check stays bad although its parameters have come."""
    check = await scene.queues.check("gang", parameters=f"late-{scene.queues.name[-6:]}")
    await scene.queues.condition(check, "False", "BadParametersRef")
    await scene.gangctl.process.stop()
    yield
    await scene.gangctl.process.start()
    # A list follows the fifth refusal of a watch, and shows everything; so does the next one, a long time later.
    await scene.refused(6 if scene.right.verb == "watch" else 1)
    since = scene.queues.cluster.plane.audit_position
    name = await scene.queues.parameters("late")
    live = await scene.queues.api.get(f"{CHECKS}/{check}")
    if "BadParametersRef" not in {each["reason"] for each in live["status"]["conditions"]}:

        async def listed() -> bool:
            own = (
                each
                for each in scene.queues.cluster.plane.audit(since)
                if each["user"]["username"] == scene.gangctl.user
            )
            resources = {each.get("objectRef", {}).get("resource") for each in own if each["verb"] == "list"}
            return "gangadmissionparameters" in resources

        await wait_for(listed, what="the list that has told of them: no watch has")
    yield
    await scene.queues.condition(check, "True", "Active")
    await scene.queues.api.delete(f"{PARAMETERS}/{name}")


async def says_ready(scene: Scene) -> AsyncGenerator[None, None]:
    """Without it a gang is made, and its JobSet never starts."""
    check = await scene.queues.check("gang")
    await scene.queues.condition(check, "True", "Active")
    await scene.queues.open((check,))
    await scene.queues.active()
    yield
    await scene.queues.submit()
    await scene.refused()
    assert not holds(await scene.queues.workload("js"), "Admitted")
    yield
    await wait_for(lambda: scene.queues.started("js"), what="the JobSet to start")


async def asks_policies(scene: Scene) -> AsyncGenerator[None, None]:
    """Without it nobody starts whom policies might deny by now."""
    name = f"fine-{scene.queues.name[-6:]}"
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.queues.name}}}
    spec = {"matchConstraints": here, "validations": [{"expression": "true"}]}
    body = {"apiVersion": "gangctl.dev/v1alpha1", "kind": "GangPolicy", "metadata": {"name": name}, "spec": spec}
    path = f"/apis/gangctl.dev/v1alpha1/gangpolicies/{name}"
    await scene.queues.api.patch(path, body, kind="apply", fieldManager="test")

    async def in_force() -> bool:
        status = (await scene.queues.api.get(path)).get("status", {})
        return [each["status"] for each in status.get("conditions", [])] == ["True"]

    await wait_for(in_force, what="the policy to be in force")
    async for part in says_ready(scene):
        yield part
    await scene.queues.api.delete(path)


async def opens(scene: Scene) -> AsyncGenerator[None, None]:
    """Without it the gate stays closed."""
    yield
    await scene.queues.submit()
    await scene.refused()
    assert await gates_of(scene.queues.cluster, "js") == ["gangctl.dev/gang"]
    yield
    await wait_for(lambda: scene.queues.started("js"), what="the JobSet to start")
