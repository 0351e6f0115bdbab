"""Gang objects in a real cluster: what kubectl shows, waits for and deletes, what a restart writes, and each right."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.cli.publishedschemas import schema_of
from tests.cli.schema import violations
from tests.controlplane.api import Object
from tests.controlplane.components.addon import remove_namespace
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for, wait_until
from tests.jobsets import jobset, rj
from tests.live.admission import install
from tests.live.admission_rights import granted
from tests.live.cluster import JOBSETS, Cluster
from tests.live.definitions import serve, withdraw
from tests.live.gangctl import USER, Gangctl, create_namespaces, prepare, shared, shared_gangctl
from tests.live.rights import Right, missing, not_in_a_loop, refusals
from tests.manifests.definitions.gangs import definitions
from tests.manifests.kubectl import Kubectl

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("gang-objects")]

GANGS = "gangctl.dev/v1alpha1"


@pytest.fixture(scope="module")
def gang_plane() -> Iterator[ControlPlane]:
    async def start() -> ControlPlane:
        # With the definition from the start: the garbage collector looks for new kinds once in a while.
        started = await ControlPlane.start("1.37", ("jobset",), crds=[*definitions().values()])
        await prepare(started)
        await install(started.api, "gang-objects")
        await add_nodes(started.api, 2, cpu="8")
        return started

    yield from shared(start)


@pytest.fixture(scope="module")
def writing(gang_plane: ControlPlane) -> Iterator[Gangctl]:
    """gangctl that writes them; a test that stops it starts it again."""
    yield from shared_gangctl(Gangctl(gang_plane, "--gang-objects"))


class Place(Cluster):
    """A namespace, a gangctl that writes Gang objects, and kubectl."""

    def __init__(self, plane: ControlPlane, namespace: str, gangctl: Gangctl, home: Path) -> None:
        super().__init__(plane, namespace)
        self.gangctl = gangctl
        self._kubectl = Kubectl(home, plane.kubeconfig)

    async def kubectl(self, *arguments: str) -> str:
        return (await self._kubectl.run(*arguments, "-n", self.namespace)).text

    def gang_path(self, name: str = "js") -> str:
        return self.path(GANGS, "gangs", name)

    async def gang(self, name: str = "js") -> Object | None:
        return await self.api.found(self.gang_path(name))

    async def submit(self, name: str = "js", pods: int = 3, cpu: str = "1") -> str:
        """Create a JobSet that asks for a gang; its UID."""
        raw = jobset(name, rj("w", 1, pods, pods, mode="Gang", cpu=cpu))
        return str((await self.create_jobset(raw))["metadata"]["uid"])

    async def unasked(self, name: str = "js") -> str:
        """A Gang as gangctl would have left it, of a JobSet that asks for none; the JobSet's UID."""
        created = await self.create_jobset(jobset(name, rj("w", 1, 2, 2)))
        owner = {"apiVersion": JOBSETS, "kind": "JobSet", "name": name, "uid": created["metadata"]["uid"]}
        metadata = {"name": name, "ownerReferences": [{**owner, "controller": True}]}
        await self.api.create(self.path(GANGS, "gangs"), {"apiVersion": GANGS, "kind": "Gang", "metadata": metadata})
        return str(owner["uid"])

    async def until(self, phase: str, name: str = "js") -> Object:
        """Wait for a phase; the object."""

        async def come() -> Object:
            gang = await self.gang(name)
            seen = (gang or {}).get("status", {}).get("phase")
            if gang is None or seen != phase:
                raise NotYet(str(seen))
            return gang

        return await wait_for(come, what=f"{name} to be {phase}")

    async def gone(self, name: str = "js") -> None:
        await read_until(lambda: self.gang(name), lambda gang: gang is None, f"Gang {name} to be gone")

    def written(self, since: int) -> list[str]:
        """What gangctl wrote of Gang objects here."""
        return [each for each in self.writes(USER, since) if each.endswith(" gangs")]


@pytest.fixture
async def place(
    gang_plane: ControlPlane, writing: Gangctl, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Place]:
    assert writing.process.running, "an earlier test left gangctl stopped"
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[5:40].strip("-")
    name = f"{slug}-{secrets.token_hex(3)}"
    await create_namespaces(gang_plane, [name])
    yield Place(gang_plane, name, writing, tmp_path)
    await remove_namespace(gang_plane.api, name)


async def test_kubectl_gets_and_waits_for_a_gang_and_it_is_deleted_with_its_jobset(place: Place) -> None:
    since = place.plane.audit_position
    async with Kubelet(place.api):
        waiting = asyncio.create_task(wait_for(place.gang, what="the Gang"))
        uid = await place.submit()
        await waiting
        said = await place.kubectl("wait", "--for=condition=Ready", "gang/js", "--timeout=300s")
        assert said == "gang.gangctl.dev/js condition met\n"
        gang = await place.until("Ready")
        (owner,) = gang["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"], owner["blockOwnerDeletion"]) == ("JobSet", "js", uid, False)
        assert gang["status"]["pods"] == {
            **dict.fromkeys(("desired", "minimum", "wanted", "created", "scheduled", "ready"), 3),
            "succeeded": 0,
            "stranded": 0,
        }
        gang["metadata"] = {"name": "js", "namespace": place.namespace}
        assert violations(gang, schema_of("gang")) == []
        head, row = (await place.kubectl("get", "gangs")).splitlines()
        assert head.split() == ["NAME", "PHASE", "READY", "REASON", "SINCE", "AGE"]
        assert row.split()[:3] == ["js", "Ready", "3/3"]
        writes = place.written(since)
        assert writes[0] == "create gangs"
        assert set(writes[1:]) == {"patch gangs"}
        await place.api.delete(place.path(JOBSETS, "jobsets", "js"), propagation="Background")
        await place.gone()
        assert "delete gangs" not in place.written(since)


async def test_a_gang_without_capacity_has_its_cause(place: Place) -> None:
    await place.submit(pods=3, cpu="7")
    gang = await place.until("Unschedulable")
    assert gang["status"]["ready"] == "0/3"
    assert gang["status"]["reason"] == gang["status"]["causes"][0]["reason"]
    (condition,) = gang["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "False")
    _, row = (await place.kubectl("get", "gangs")).splitlines()
    assert row.split()[:4] == ["js", "Unschedulable", "0/3", gang["status"]["reason"]]


async def test_a_restart_of_gangctl_writes_nothing(place: Place) -> None:
    async with Kubelet(place.api):
        await place.submit(cpu="10m")
        await place.submit("large", cpu="7")
        await place.until("Ready")
        await place.until("Unschedulable", "large")
        # The first restart writes at once what might have waited for its turn.
        for later in ("later", "latest"):
            before = {name: await place.gang(name) for name in ("js", "large")}
            await place.gangctl.process.stop()
            since = place.plane.audit_position
            await place.gangctl.process.start()
            # A JobSet that comes after the start is told of when those before it have been looked at.
            await place.submit(later, cpu="10m")
            await place.until("Ready", later)
        assert {name: await place.gang(name) for name in ("js", "large")} == before
        references = [each["objectRef"] for each in place.plane.writes_by(USER, since).objects]
        gangs = [each for each in references if each["resource"] == "gangs"]
        assert {each["name"] for each in gangs if each["namespace"] == place.namespace} == {"latest"}


async def test_a_foreign_object_is_left_alone(place: Place) -> None:
    body = {"apiVersion": GANGS, "kind": "Gang", "metadata": {"name": "js", "namespace": place.namespace}}
    made = await place.api.create(place.path(GANGS, "gangs"), body)
    await place.submit()
    await place.submit("other")
    await wait_for(lambda: place.gang("other"), what="another Gang")

    async def reported() -> bool:
        return f"Gang {place.namespace}/js is not owned by the JobSet" in place.gangctl.log

    await wait_for(reported, what="gangctl to say so")
    assert await place.gang() == made
    await place.api.delete(place.gang_path())

    await read_until(
        place.gang, lambda gang: gang is not None and "ownerReferences" in gang["metadata"], "gangctl's own"
    )


async def test_the_object_of_a_jobset_without_a_gang_is_deleted(place: Place) -> None:
    """A JobSet that was stamped stays followed; here is one that never was."""
    uid = await place.unasked()
    await place.gone()
    assert (await place.jobset("js"))["metadata"]["uid"] == uid


@pytest.mark.full("half a minute, and the sandbox proves that a kind may be absent and come")
async def test_gangctl_works_without_the_definition(place: Place, gang_plane: ControlPlane) -> None:
    await withdraw(gang_plane.api, definitions().values())

    await wait_until(lambda: "the cluster does not have their definition" in place.gangctl.log, "gangctl to say so")
    await place.submit()

    await read_until(place.gangs, lambda gangs: gangs.workloads, "the gang")
    await serve(gang_plane.api, definitions().values())
    await wait_for(place.gang, what="its Gang")


class Lack:
    """A right that is missing, and what gangctl is refused and says meanwhile."""

    def __init__(self, place: Place, right: Right) -> None:
        self._place = place
        self._right = right
        self._since = place.plane.audit_position
        self._said = len(place.gangctl.log)

    def listed(self, since: int) -> bool:
        """Whether gangctl has listed Gangs after a position in the audit log."""
        own = (each for each in self._place.plane.audit(since) if each["user"].get("username") == USER)
        return any(each["verb"] == "list" and each.get("objectRef", {}).get("resource") == "gangs" for each in own)

    def refused(self) -> list[Object]:
        audited = self._place.plane.audit(self._since)
        own = [each for each in audited if each["user"].get("username") == USER]
        # A namespace of another test may be on its way out.
        here = [each for each in own if each.get("objectRef", {}).get("namespace") in {None, self._place.namespace}]
        return [each for each in refusals(here) if self._right.covers(each)]

    async def reported(self, times: int = 1) -> None:
        """It was refused so many times, and said; not without end."""

        async def both() -> bool:
            said = self._place.gangctl.log[self._said :].replace('\\"', '"')
            if len(self.refused()) < times or self._right.words not in said:
                raise NotYet(f"{len(self.refused())} refusals")
            return True

        await wait_for(both, what=f"{self._right} to be missed")
        not_in_a_loop(self.refused(), self._place.plane.audit(self._since))


async def says(place: Place, name: str = "js") -> str:
    """The phase in the Gang, once there is one."""

    async def reported() -> str:
        return str(((await place.gang(name)) or {}).get("status", {}).get("phase", ""))

    return await wait_for(reported, what=f"Gang {name} to say something")


def lacking(verb: str) -> Right:
    (right,) = [each for each in granted("gang-objects") if each.verb == verb]
    return right


@pytest.mark.full("rights of the same kinds are looked at in test_rights_live")
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_without_list_or_watch_no_deleted_object_is_recreated(verb: str, place: Place) -> None:
    """Without list nothing is written; without watch nobody hears that one is gone."""
    right, process = lacking(verb), place.gangctl.process
    await process.stop()
    async with missing(place.api, USER, [right]):
        lack = Lack(place, right)
        await process.start()
        await place.submit()
        await lack.reported()
        if verb == "list":
            assert await place.gang() is None
        else:
            await says(place)
            # A list follows the fifth refusal, and shows what is gone; so does the next one, a long time later.
            await lack.reported(6)
            since = place.plane.audit_position
            await place.api.delete(place.gang_path())
            await place.submit("other")
            await says(place, "other")
            if await place.gang() is not None:
                await wait_until(lambda: lack.listed(since), "the list that shows it: no watch does")
    await says(place)


@pytest.mark.full("rights of the same kinds are looked at in test_rights_live")
@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_without_create_or_patch_objects_are_absent_or_empty(verb: str, place: Place) -> None:
    right = lacking(verb)
    async with missing(place.api, USER, [right]):
        lack = Lack(place, right)
        await place.submit()
        await lack.reported()
        gang = await place.gang()
        assert (gang is None) == (verb == "create")
        assert "status" not in (gang or {})
    await says(place)


@pytest.mark.full("rights of the same kinds are looked at in test_rights_live")
async def test_without_delete_an_unneeded_object_stays(place: Place) -> None:
    right = lacking("delete")
    async with missing(place.api, USER, [right]):
        lack = Lack(place, right)
        await place.unasked()
        await lack.reported()
        assert await place.gang() is not None
    await place.gone()


def test_every_right_has_a_test_without_it() -> None:
    assert sorted(each.verb for each in granted("gang-objects")) == ["create", "delete", "list", "patch", "watch"]
