"""Configurations are created, repaired and kept trusted; nothing is written while nothing differs."""

from __future__ import annotations

import asyncio
import base64
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from gangctl.client.resources import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from gangctl.errors import AlreadyExistsError, ConfigError, ConflictError, NotFoundError, ServerError
from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_configurations
from gangctl.webhooks.registration import Registrar, Registration
from tests.client.clock import VirtualClock

SETTINGS = WebhookSettings(Endpoint(url="https://127.0.0.1:9443"))
NAME = "gangctl-gangs"
BOTH = (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS)


def wanted(authorities: bytes) -> list[dict[str, Any]]:
    return build_configurations(SETTINGS, authorities)[1:]


class FakeConfigurations:
    """Both configurations of an API server that fills in defaults and checks resourceVersions."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.writes: list[str] = []
        self.trouble: Exception | None = None
        self.before_write: Callable[[], None] = lambda: None

    async def get(self, resource: Resource, name: str) -> dict[str, Any]:
        await self._arrive(name)
        if resource.kind not in self.objects:
            raise NotFoundError(404, "NotFound", "no such configuration")
        return copy.deepcopy(self.objects[resource.kind])

    async def create(self, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        await self._arrive(body["metadata"]["name"])
        self.before_write()
        if resource.kind in self.objects:
            raise AlreadyExistsError(409, "AlreadyExists", "there is one")
        return self._write("create", resource, body)

    async def update(self, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        await self._arrive(body["metadata"]["name"])
        self.before_write()
        if resource.kind not in self.objects:
            raise NotFoundError(404, "NotFound", "no such configuration")
        if body["metadata"]["resourceVersion"] != self.objects[resource.kind]["metadata"]["resourceVersion"]:
            raise ConflictError(409, "Conflict", "it was changed")
        return self._write("update", resource, body)

    async def delete(self, resource: Resource, name: str) -> dict[str, Any]:
        await self._arrive(name)
        if resource.kind not in self.objects:
            raise NotFoundError(404, "NotFound", "no such configuration")
        self.writes.append(f"delete {resource.kind}")
        return self.objects.pop(resource.kind)

    async def _arrive(self, name: str) -> None:
        assert name == NAME
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble

    def _write(self, verb: str, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        self.writes.append(f"{verb} {resource.kind}")
        self.put(resource, body)
        return copy.deepcopy(self.objects[resource.kind])

    def put(self, resource: Resource, body: Mapping[str, Any]) -> None:
        self.version += 1
        live = copy.deepcopy(dict(body))
        live["metadata"] |= {"uid": "u", "resourceVersion": str(self.version)}
        for webhook in live["webhooks"]:
            webhook.setdefault("objectSelector", {})
            webhook.setdefault("timeoutSeconds", 10)
        self.objects[resource.kind] = live

    def trusted(self) -> set[bytes | None]:
        bundles = [each["clientConfig"].get("caBundle") for live in self.objects.values() for each in live["webhooks"]]
        return {None if each is None else base64.b64decode(each) for each in bundles}


@pytest.fixture
def api() -> FakeConfigurations:
    return FakeConfigurations()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def registrar(api: FakeConfigurations, clock: VirtualClock, **changes: Any) -> Registrar:
    return Registrar(api, wanted, clock=clock, **changes)  # type: ignore[arg-type]  # reads and writes


@asynccontextmanager
async def running(each: Registrar) -> AsyncIterator[None]:
    task = asyncio.create_task(each.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_nothing_is_written_before_there_is_a_ca_bundle(api: FakeConfigurations, clock: VirtualClock) -> None:
    each = registrar(api, clock)
    async with running(each):
        await clock.advance(100)
    assert (each.problem is None, each.problem, api.writes) == (False, "not looked at yet", [])


async def test_missing_configurations_are_created_once(api: FakeConfigurations, clock: VirtualClock) -> None:
    each = registrar(api, clock)
    each.trust(b"ours")
    async with running(each):
        await clock.advance(1000)
    assert (each.problem is None, each.problem) == (True, None)
    assert api.writes == ["create MutatingWebhookConfiguration", "create ValidatingWebhookConfiguration"]
    assert api.trusted() == {b"ours"}


async def test_a_second_replica_writes_nothing(api: FakeConfigurations, clock: VirtualClock) -> None:
    replicas = [registrar(api, clock) for _ in range(3)]
    for each in replicas:
        each.trust(b"ours")
    await asyncio.gather(*(each.check() for each in replicas))
    await asyncio.gather(*(each.check() for each in replicas))
    assert len(api.writes) == 2
    assert all(each.problem is None for each in replicas)


async def test_a_new_authority_is_registered_at_once(api: FakeConfigurations, clock: VirtualClock) -> None:
    each = registrar(api, clock)
    each.trust(b"old")
    async with running(each):
        await clock.advance(5)
        each.trust(b"old+new")
        await clock.advance(0)
        assert api.trusted() == {b"old+new"}
    assert [write.split(" ")[0] for write in api.writes] == ["create", "create", "update", "update"]


def edit(live: dict[str, Any]) -> None:
    live["webhooks"][0]["failurePolicy"] = "Ignore"


def corrupt(live: dict[str, Any]) -> None:
    live["webhooks"][-1]["clientConfig"]["caBundle"] = "AAAA"


def narrow(live: dict[str, Any]) -> None:
    live["webhooks"][0]["namespaceSelector"]["matchLabels"] = {"never": "there"}


def empty(live: dict[str, Any]) -> None:
    live["webhooks"] = []


@pytest.mark.parametrize("damage", [edit, narrow, corrupt, empty])
@pytest.mark.parametrize("resource", BOTH)
async def test_a_changed_configuration_is_repaired(
    api: FakeConfigurations, clock: VirtualClock, resource: Resource, damage: Callable[[dict[str, Any]], None]
) -> None:
    each = registrar(api, clock)
    each.trust(b"ours")
    await each.check()
    before = copy.deepcopy(api.objects[resource.kind]["webhooks"])
    changed = copy.deepcopy(api.objects[resource.kind])
    changed["metadata"]["labels"]["team"] = "infra"
    damage(changed)
    api.put(resource, changed)
    assert await each.check()
    assert api.objects[resource.kind]["webhooks"] == before
    assert api.objects[resource.kind]["metadata"]["labels"]["team"] == "infra"
    assert api.writes[2:] == [f"update {resource.kind}"]
    assert each.problem is None


async def test_a_deleted_configuration_is_recreated(api: FakeConfigurations, clock: VirtualClock) -> None:
    each = registrar(api, clock)
    each.trust(b"ours")
    async with running(each):
        await clock.advance(5)
        api.objects.pop("MutatingWebhookConfiguration")
        each.wake()
        await clock.advance(0)
        assert api.objects.keys() == {resource.kind for resource in BOTH}
        api.objects.clear()
        await clock.advance(31)
        assert api.objects.keys() == {resource.kind for resource in BOTH}


async def test_fields_of_another_version_are_removed(api: FakeConfigurations, clock: VirtualClock) -> None:
    def earlier(authorities: bytes) -> list[dict[str, Any]]:
        configurations = wanted(authorities)
        for configuration in configurations:
            configuration["webhooks"][0]["objectSelector"] = {"matchLabels": {"a": "b"}}
        return configurations

    old = Registrar(api, earlier, clock=clock)  # type: ignore[arg-type]  # reads and writes
    old.trust(b"ours")
    await old.check()
    new = registrar(api, clock)
    new.trust(b"ours")
    assert await new.check()
    assert not await new.check()
    selectors = [each["webhooks"][0]["objectSelector"] for each in api.objects.values()]
    assert selectors == [{}, {}]


async def test_two_conflicting_owners_write_with_growing_delays(api: FakeConfigurations, clock: VirtualClock) -> None:
    one, two = registrar(api, clock), registrar(api, clock)
    one.trust(b"one")
    two.trust(b"two")

    def both_see_it() -> None:
        one.wake()
        two.wake()

    api.before_write = both_see_it
    async with running(one), running(two):
        await clock.advance(600)
    assert 10 < len(api.writes) < 150


async def test_the_ca_bundle_is_read_again_before_a_write(api: FakeConfigurations, clock: VirtualClock) -> None:
    async def refresh() -> bytes:
        return b"old+new"

    quick = registrar(api, clock)
    quick.trust(b"old+new")
    await quick.check()
    late = registrar(api, clock, refresh=refresh)
    late.trust(b"old")
    assert not await late.check()
    assert late.problem is None
    assert api.trusted() == {b"old+new"}
    assert len(api.writes) == 2


async def test_a_standby_only_checks(api: FakeConfigurations, clock: VirtualClock) -> None:
    leader = False
    standby = registrar(api, clock, may_write=lambda: leader)
    standby.trust(b"ours")
    assert not await standby.check()
    assert standby.problem == f"MutatingWebhookConfiguration {NAME} is missing"
    leader = True
    assert await standby.check()
    leader = False
    standby.trust(b"new")
    await standby.check()
    assert standby.problem == f"MutatingWebhookConfiguration {NAME} is not as wanted"
    assert len(api.writes) == 2


async def test_a_conflict_is_checked_again(api: FakeConfigurations, clock: VirtualClock) -> None:
    each = registrar(api, clock)
    each.trust(b"ours")

    def interfere() -> None:
        api.before_write = lambda: None
        for resource, configuration in zip(BOTH, wanted(b"theirs"), strict=True):
            api.put(resource, configuration)

    api.before_write = interfere
    assert await each.check()
    assert str(each.problem) == f"MutatingWebhookConfiguration {NAME} is missing"
    api.before_write = interfere
    assert await each.check()
    assert str(each.problem) == f"MutatingWebhookConfiguration {NAME} is not as wanted"
    assert await each.check()
    assert each.problem is None
    assert api.trusted() == {b"ours"}


@pytest.mark.parametrize("trouble", [ServerError(500, "InternalError", "away"), ConfigError("away")])
async def test_an_error_is_logged_once_and_changes_nothing(
    api: FakeConfigurations, clock: VirtualClock, trouble: Exception
) -> None:
    each = registrar(api, clock)
    each.trust(b"ours")
    api.trouble = trouble
    with capture_logs() as logs:
        async with running(each):
            await clock.advance(60)
            assert (each.problem is None, each.problem) == (False, "away")
            api.trouble = None
            await clock.advance(60)
            assert each.problem is None
            api.trouble = trouble
            await clock.advance(60)
            assert each.problem is None
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == [
        "webhook configurations not looked after"
    ] * 2


class Sometimes:
    """Configurations that are needed for a while."""

    def __init__(self, *, needed: bool) -> None:
        self.needed = needed

    def __call__(self, authorities: bytes) -> list[dict[str, Any]]:
        return [each if self.needed else {**each, "webhooks": []} for each in wanted(authorities)]


async def test_a_configuration_that_is_not_needed_is_deleted(api: FakeConfigurations, clock: VirtualClock) -> None:
    sometimes = Sometimes(needed=False)
    each = Registrar(api, sometimes, clock=clock)  # type: ignore[arg-type]  # reads and writes
    each.trust(b"ours")
    assert not await each.check()
    assert (each.problem is None, api.objects) == (True, {})
    sometimes.needed = True
    assert await each.check()
    assert len(api.objects) == 2
    sometimes.needed = False
    assert await each.check()
    assert (each.problem is None, api.objects) == (True, {})
    assert not await each.check()


async def test_a_standby_has_checked_too(api: FakeConfigurations, clock: VirtualClock) -> None:
    each = registrar(api, clock, may_write=lambda: False)
    each.trust(b"ours")
    api.trouble = ServerError(500, "InternalError", "away")
    async with running(each):
        await clock.advance(1)
        assert (each.checked, each.problem is None) == (False, False)
        api.trouble = None
        await clock.advance(60)
    assert (each.checked, each.problem is None, api.writes) == (True, False, [])


async def test_configurations_made_by_an_installer_are_filled_and_emptied(
    api: FakeConfigurations, clock: VirtualClock
) -> None:
    sometimes = Sometimes(needed=False)
    each = Registrar(api, sometimes, mode=Registration.FILL, clock=clock)  # type: ignore[arg-type]  # reads and writes
    each.trust(b"ours")
    assert not await each.check()
    assert each.problem is None
    sometimes.needed = True
    assert not await each.check()
    assert str(each.problem) == f"MutatingWebhookConfiguration {NAME} is missing"
    for resource, configuration in zip(BOTH, wanted(b""), strict=True):
        api.put(resource, {**configuration, "webhooks": []})
    assert await each.check()
    assert (each.problem is None, api.trusted()) == (True, {b"ours"})
    sometimes.needed = False
    assert await each.check()
    assert [live["webhooks"] for live in api.objects.values()] == [[], []]
    await each.unregister(wanted(b""))
    assert len(api.objects) == 2


async def test_labels_set_by_an_installer_are_kept(api: FakeConfigurations, clock: VirtualClock) -> None:
    """Helm 4 refuses to apply a label again that another client has changed."""
    each = Registrar(api, wanted, mode=Registration.FILL, clock=clock)  # type: ignore[arg-type]  # reads and writes
    each.trust(b"ours")
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    for resource, configuration in zip(BOTH, wanted(b""), strict=True):
        api.put(
            resource, {**configuration, "metadata": {**configuration["metadata"], "labels": labels}, "webhooks": []}
        )
    assert await each.check()
    assert [live["metadata"]["labels"] for live in api.objects.values()] == [labels, labels]
    assert not await each.check()
    assert each.problem is None


# Other modes


async def test_in_ca_only_mode_only_the_ca_bundle_is_written(api: FakeConfigurations, clock: VirtualClock) -> None:
    each = registrar(api, clock, mode=Registration.CA_ONLY)
    each.trust(b"ours")
    async with running(each):
        await clock.advance(40)
        assert str(each.problem) == f"MutatingWebhookConfiguration {NAME} is missing"
        for resource, configuration in zip(BOTH, wanted(b""), strict=True):
            configuration["webhooks"][0]["failurePolicy"] = "Ignore"
            api.put(resource, configuration)
        each.wake()
        await clock.advance(1)
        assert (each.problem is None, api.trusted()) == (True, {b"ours"})
        each.trust(b"new")
        await clock.advance(1)
    assert api.trusted() == {b"new"}
    assert api.writes == [f"update {resource.kind}" for resource in BOTH] * 2
    assert {live["webhooks"][0]["failurePolicy"] for live in api.objects.values()} == {"Ignore"}
    await each.unregister(wanted(b""))
    assert len(api.objects) == 2


@pytest.mark.parametrize("hosts", [("gangctl-webhook.home.svc",), ("*.home.svc", "other.example"), ()])
async def test_in_ca_only_mode_another_installation_is_left_alone(
    hosts: tuple[str, ...], api: FakeConfigurations, clock: VirtualClock
) -> None:
    """The configurations of two are the same ones, and lead to the one that was installed last."""
    for resource, configuration in zip(BOTH, wanted(b"theirs"), strict=True):
        for webhook, namespace in zip(configuration["webhooks"], ("home", "away"), strict=False):
            webhook["clientConfig"] |= {"service": {"name": "gangctl-webhook", "namespace": namespace}}
        api.put(resource, configuration)
    installed = registrar(api, clock, mode=Registration.CA_ONLY)
    installed.trust(b"ours", hosts)
    await installed.check()
    mutating, validating = (f"update {resource.kind}" for resource in BOTH)
    if hosts:
        problem = f"ValidatingWebhookConfiguration {NAME} leads to another gangctl, of Service away/gangctl-webhook"
        assert (str(installed.problem), api.writes) == (problem, [mutating])
    else:
        assert (installed.problem, api.writes) == (None, [mutating, validating])


async def test_an_injected_ca_bundle_is_kept(api: FakeConfigurations, clock: VirtualClock) -> None:
    for mode in (Registration.MANAGE, Registration.CA_ONLY):
        each = registrar(api, clock, mode=mode)
        each.trust(b"")
        await each.check()
        for resource in BOTH:
            live = api.objects[resource.kind]
            for webhook in live["webhooks"]:
                webhook["clientConfig"]["caBundle"] = base64.b64encode(b"injected").decode()
            api.put(resource, live)
        assert not await each.check()
        assert (each.problem is None, api.trusted()) == (True, {b"injected"})


async def test_in_mode_none_nothing_is_written(api: FakeConfigurations, clock: VirtualClock) -> None:
    each = registrar(api, clock, mode=Registration.NONE)
    each.trust(b"ours")
    async with running(each):
        await clock.advance(100)
    await each.unregister(wanted(b""))
    assert (each.problem is None, api.writes) == (True, [])


async def test_unregister_deletes_the_configurations(api: FakeConfigurations, clock: VirtualClock) -> None:
    each = registrar(api, clock)
    each.trust(b"ours")
    await each.check()
    with capture_logs() as logs:
        await each.unregister(wanted(b""))
        await each.unregister(wanted(b""))
    assert {log["log_level"] for log in logs} == {"info"}, "a stop that was asked for is no problem"
    assert api.objects == {}
    assert (each.problem is None, each.problem) == (False, "unregistered")
    assert [write.split(" ")[0] for write in api.writes] == ["create", "create", "delete", "delete"]
