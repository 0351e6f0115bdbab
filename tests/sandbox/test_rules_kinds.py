"""Secrets, Leases, events, nodes, webhooks and the rest, in the words of real API servers."""

from __future__ import annotations

from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object
from tests.sandbox.asking import create, messages, refused


async def test_ports_of_a_service_are_filled_in() -> None:
    created = await create(Api(), "services", spec={"ports": [{"port": 80}]})
    assert created["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


async def test_allocatable_defaults_to_capacity() -> None:
    created = await create(Api(), "nodes", status={"capacity": {"cpu": "4000m"}})
    assert created["status"]["allocatable"] == {"cpu": "4"}


async def test_a_role_may_have_any_name_of_a_path() -> None:
    assert await create(Api(), "clusterroles.rbac.authorization.k8s.io", "a:B")


WEBHOOK: Object = {
    "name": "a.b.c",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://127.0.0.1:1/x"},
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
}
MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"


async def test_a_webhook_is_called_over_https() -> None:
    webhook = {**WEBHOOK, "clientConfig": {"url": "http://127.0.0.1:1/x"}}
    (words,) = messages(await refused(Api(), MUTATING, webhooks=[webhook]))
    assert words.startswith("webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed")


async def test_a_webhook_has_a_name_of_its_own() -> None:
    error = await refused(Api(), MUTATING, webhooks=[WEBHOOK, WEBHOOK])
    assert messages(error) == ['webhooks[1].name: Duplicate value: "a.b.c"']
