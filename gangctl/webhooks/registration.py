"""Keeps the webhook configurations and the policy for Jobs as they should be, and reports whether they are.

After an edit or a deletion by another client it repairs them; where another owner (GitOps) manages them it updates only
the caBundle. Nothing is written while nothing differs.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any, Final

import orjson
import structlog

from gangctl.client.client import Client, Selection
from gangctl.client.pacing import Backoff, Clock
from gangctl.client.resources import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from gangctl.errors import AlreadyExistsError, ApiError, ConfigError, ConflictError, NotFoundError
from gangctl.runtime.informer import Informer

_ENFORCED: Final = (
    {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
    {"key": "control-plane", "operator": "DoesNotExist"},
    {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
)
"""Terms that the Admissions Enforcer of AKS adds to each webhook's namespaceSelector, again when they are gone."""
FINGERPRINT: Final = "gangctl.dev/configuration"
"""Annotation with a hash of the wanted object when it was written: identifies leftovers of another version."""


def contains(live: Any, wanted: Any) -> bool:
    """Whether ``live`` has every field of ``wanted``; further fields come from the server or other clients.

    Lists must have the same length, but for what AKS adds, and absent is the same as empty.
    """
    if isinstance(wanted, dict):
        if not isinstance(live, dict | None):
            return False
        fields = live or {}
        # Further labels of a selector do not come from the server, and leave objects out.
        narrowed = "matchExpressions" in wanted and fields.get("matchLabels")
        return not narrowed and all(contains(fields.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(entries := live or [], list):
            return False
        entries = [entry for entry in entries if entry in wanted or entry not in _ENFORCED]
        return len(entries) == len(wanted) and all(map(contains, entries, wanted))
    # The types, too: True equals 1 in Python.
    return type(live) is type(wanted) and bool(live == wanted)


def replaced(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object:
    """``wanted`` in the place of ``live``: with its resourceVersion, and foreign labels and annotations.

    Where ``wanted`` has no caBundle, the existing one stays: another component injects it.
    """
    target: Object = {**live, **copy.deepcopy(dict(wanted))}
    before = live.get("metadata") or {}
    target["metadata"] = {**before, **target["metadata"]}
    for kept in ("labels", "annotations"):
        values = {**(before.get(kept) or {}), **(wanted["metadata"].get(kept) or {})}
        if values:
            target["metadata"][kept] = values
    bundles = {str(webhook.get("name")): _client_config(webhook).get("caBundle") for webhook in _webhooks(live)}
    for webhook in target.get("webhooks") or []:
        bundle = bundles.get(webhook["name"])
        if bundle is not None:
            webhook["clientConfig"].setdefault("caBundle", bundle)
    return target


def with_authorities(live: Mapping[str, Any], authorities: bytes) -> Object:
    """``live`` with this PEM bundle in every webhook; untouched when the bundle is empty."""
    target = copy.deepcopy(dict(live))
    for webhook in _webhooks(target):
        if authorities:
            bundle = base64.b64encode(authorities).decode()
            webhook["clientConfig"] = {**_client_config(webhook), "caBundle": bundle}
    return target


def _webhooks(live: Mapping[str, Any]) -> list[Object]:
    """The webhooks of an object that may be malformed, since a server without validation accepts it."""
    webhooks = live.get("webhooks")
    return [webhook for webhook in webhooks if isinstance(webhook, dict)] if isinstance(webhooks, list) else []


def _client_config(webhook: Mapping[str, Any]) -> Object:
    config = webhook.get("clientConfig")
    return config if isinstance(config, dict) else {}


def fingerprinted(wanted: Object) -> Object:
    """The same with an annotation that identifies it, independent of the authorities."""
    plain = copy.deepcopy(wanted)
    for webhook in plain.get("webhooks") or []:
        webhook["clientConfig"].pop("caBundle", None)
    digest = hashlib.sha256(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
    metadata = wanted["metadata"]
    annotations = {**(metadata.get("annotations") or {}), FINGERPRINT: digest}
    return {**wanted, "metadata": {**metadata, "annotations": annotations}}


_log = structlog.get_logger(__name__)

Object = dict[str, Any]
# From the PEM bundle of trusted authorities to complete objects, kind and name included. A configuration that is not
# needed (any more) is wanted without webhooks.
Wanted = Callable[[bytes], list[Object]]

_RESOURCES: Final = {
    resource.kind: resource
    for resource in (
        MUTATING_ADMISSION_POLICIES,
        MUTATING_ADMISSION_POLICY_BINDINGS,
        MUTATING_WEBHOOK_CONFIGURATIONS,
        VALIDATING_WEBHOOK_CONFIGURATIONS,
    )
}
_ATTEMPTS: Final = 5


class Registration(StrEnum):
    """Who manages the configurations: gangctl, another owner except for the caBundle, or another owner altogether.

    With ``fill`` another owner creates them, and gangctl fills in the webhooks, which only it knows: that needs no
    permission to create configurations, which cannot be granted by name.
    """

    MANAGE = "manage"
    FILL = "fill"
    CA_ONLY = "ca-only"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RegistrarOptions:
    """Checks happen after each sign of a change, and every ``poll_seconds``.

    After a write or a failure the next check waits, longer each time up to ``cap_delay_seconds``: two owners that undo
    each other's work do it slowly.
    """

    poll_seconds: float = 30.0
    base_delay_seconds: float = 0.2
    cap_delay_seconds: float = 30.0


class Registrar:
    """Run :meth:`run` in a task, and call :meth:`trust` with the trusted authorities, at first and on every change.

    ``refresh`` reads the authorities again: before a write, because another replica may have rotated them a moment ago.
    ``may_write`` is called before each write; a replica without permission only checks.
    """

    def __init__(
        self,
        client: Client,
        wanted: Wanted,
        *,
        mode: Registration = Registration.MANAGE,
        refresh: Callable[[], Awaitable[bytes]] | None = None,
        may_write: Callable[[], bool] = lambda: True,
        options: RegistrarOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Do nothing yet."""
        self._client = client
        self._wanted = wanted
        self._mode = mode
        self._refresh = refresh
        self._may_write = may_write
        self._options = options or RegistrarOptions()
        self._clock = clock or Clock()
        self._authorities: bytes | None = None
        self._hosts: frozenset[str] = frozenset()
        self.problem: str | None = None if mode is Registration.NONE else "not looked at yet"
        """Why API servers would not call gangctl, or not trust its answer, at the last check; None if they would."""
        self.checked = False
        """Whether the configurations could be read, at least once."""
        self._woken = asyncio.Event()

    def trust(self, authorities: bytes, hosts: Iterable[str] = ()) -> None:
        """Register this PEM bundle from now on; empty when another component manages the caBundle.

        ``hosts`` are those that the served certificate is for: where another owner manages the configurations, one that
        leads to another host is left alone. Without any nothing is known of that.
        """
        self._authorities, self._hosts = authorities, frozenset(hosts)
        self.wake()

    def wake(self) -> None:
        """Check again soon: something may have changed."""
        self._woken.set()

    async def run(self) -> None:
        """Keep the configurations as wanted until cancelled."""
        backoff = Backoff(self._options.base_delay_seconds, self._options.cap_delay_seconds)
        trouble = ""
        while True:
            # Before the check: a change during it causes another one.
            self._woken.clear()
            try:
                wrote = await self.check()
            except (ApiError, ConfigError) as error:
                # The last known registration counts: a replica does not turn unready with the API.
                if str(error) != trouble:
                    _log.warning("webhook configurations not looked after", error=str(error))
                trouble = str(error)
                if self.problem is not None:
                    self.problem = trouble
                await self._clock.sleep(backoff.next())
                continue
            trouble = ""
            if wrote:
                await self._clock.sleep(backoff.next())
                continue
            backoff.reset()
            timer = self._clock.call_later(self._options.poll_seconds, self._woken.set)
            try:
                await self._woken.wait()
            finally:
                timer.cancel()

    async def check(self) -> bool:
        """Check every configuration once, and repair differences; return whether anything was written."""
        if self._mode is Registration.NONE or self._authorities is None:
            return False
        for _ in range(_ATTEMPTS):
            findings = [await self._check_one(wanted) for wanted in self._wanted(self._authorities)]
            different = [configuration for configuration in findings if configuration.difference]
            repairable = (
                [configuration for configuration in different if configuration.body is not None]
                if self._may_write()
                else []
            )
            if repairable and await self._rotated():
                continue
            left = [configuration.difference for configuration in different if configuration not in repairable]
            # One after the other: an error ends the check, and what comes later depends on what comes first.
            left += [await self._repair(configuration) for configuration in repairable]
            self.checked = True
            self._set_problem(next(filter(None, left), None))
            return bool(repairable)
        return False

    async def unregister(self, objects: Iterable[Object]) -> None:
        """Delete these (kind and name), if gangctl may delete them."""
        if self._mode is not Registration.MANAGE:
            return
        for item in objects:
            try:
                await self._client.delete(_RESOURCES[item["kind"]], item["metadata"]["name"])
            except NotFoundError:
                continue
            _log.info("webhooks unregistered", configuration=_title(item))
        self.problem = "unregistered"

    async def _rotated(self) -> bool:
        """Whether the authorities differ from those used so far."""
        if self._refresh is None:
            return False
        before, self._authorities = self._authorities, await self._refresh()
        return before != self._authorities

    async def _check_one(self, plain: Object) -> _Finding:
        manage, ours = self._mode is Registration.MANAGE, self._mode is not Registration.CA_ONLY
        if self._mode is Registration.FILL:
            # Labels are the creator's: Helm 4 would refuse to apply one again that gangctl has changed.
            plain = {**plain, "metadata": {key: entry for key, entry in plain["metadata"].items() if key != "labels"}}
        wanted = fingerprinted(plain) if ours else plain
        resource = _RESOURCES[wanted["kind"]]
        needed = "spec" in wanted or bool(wanted.get("webhooks"))
        try:
            live = await self._client.get(resource, wanted["metadata"]["name"])
        except NotFoundError:
            if not needed:
                return _Finding(resource, None, "")
            return _Finding(resource, wanted if manage else None, f"{_title(wanted)} is missing", _Way.CREATE)
        if manage and not needed:
            return _Finding(resource, wanted, f"{_title(wanted)} is not needed", _Way.DELETE)
        # The requested name: the write must go there.
        metadata = {**(live.get("metadata") or {}), "name": wanted["metadata"]["name"]}
        live = {**live, "apiVersion": wanted["apiVersion"], "kind": wanted["kind"], "metadata": metadata}
        if not ours and (service := self._elsewhere(live)):
            # Two that write their authority over each other's would both be trusted half of the time.
            return _Finding(resource, None, f"{_title(wanted)} leads to another gangctl, of Service {service}")
        target = replaced(live, wanted) if ours else with_authorities(live, self._authorities or b"")
        same = contains(live, wanted if ours else target)
        return _Finding(resource, target, "" if same else f"{_title(wanted)} is not as wanted")

    def _elsewhere(self, live: Object) -> str:
        """Namespace and name of the Service to which a configuration leads, if the certificate is not for it."""
        for webhook in _webhooks(live) if self._hosts else ():
            service = _client_config(webhook).get("service")
            if isinstance(service, dict):
                name, namespace = service.get("name"), service.get("namespace")
                # API servers verify this name, and a wildcard stands for the first label.
                if self._hosts.isdisjoint((f"{name}.{namespace}.svc", f"*.{namespace}.svc")):
                    return f"{namespace}/{name}"
        return ""

    async def _repair(self, finding: _Finding) -> str:
        """Create, update or delete one configuration; return what is still wrong with it."""
        if finding.body is None:
            return finding.difference
        try:
            match finding.way:
                case _Way.CREATE:
                    await self._client.create(finding.resource, finding.body)
                case _Way.UPDATE:
                    await self._client.update(finding.resource, finding.body)
                case _Way.DELETE:
                    await self._client.delete(finding.resource, finding.body["metadata"]["name"])
        except (AlreadyExistsError, ConflictError, NotFoundError):
            # Another client wrote first; the next check sees the result.
            return finding.difference
        done = "webhooks unregistered" if finding.way is _Way.DELETE else "webhooks registered"
        _log.info(done, configuration=_title(finding.body), because=finding.difference)
        return ""

    def _set_problem(self, problem: str | None) -> None:
        if problem != self.problem and problem is not None:
            _log.warning("webhooks not registered", problem=problem)
        self.problem = problem


class _Way(Enum):
    CREATE = auto()
    UPDATE = auto()
    DELETE = auto()


@dataclass(frozen=True, slots=True)
class _Finding:
    """What is wrong with a configuration ("" when nothing is), and its repair, None when that is not ours."""

    resource: Resource
    body: Object | None
    difference: str
    way: _Way = _Way.UPDATE


async def watch_configurations(client: Client, registrar: Registrar, configurations: list[Object]) -> None:
    """Wake ``registrar`` whenever one of ``configurations`` (kind and name) changes, until cancelled."""
    async with asyncio.TaskGroup() as group:
        for configuration in configurations:
            # By name, so that RBAC can grant it by name.
            selection = Selection(field_selector=f"metadata.name={configuration['metadata']['name']}")
            informer = Informer(client, _RESOURCES[configuration["kind"]], _version, selection=selection)
            informer.subscribe(lambda _old, _new: registrar.wake())
            group.create_task(informer.run(), name=f"watch-{_title(configuration)}")


def _version(live: Object) -> str:
    return str(live["metadata"].get("resourceVersion", ""))


def _title(configuration: Mapping[str, Any]) -> str:
    return f"{configuration['kind']} {configuration['metadata']['name']}"
