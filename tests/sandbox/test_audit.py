from __future__ import annotations

from tests.sandbox.faults import Audit, FaultySandbox, Record
from tests.sandbox.wire import CONFIGMAPS, PODS, Wire


async def test_every_request_is_recorded(sandbox: FaultySandbox, wire: Wire) -> None:
    await wire.configmap("a")
    await wire.get(f"{CONFIGMAPS}/none")
    await wire.send("POST", f"{CONFIGMAPS}?dryRun=All", {"metadata": {"name": "b"}})
    await wire.send("PATCH", f"{PODS}/p/status", {}, content_type="application/merge-patch+json")
    await wire.get(f"{CONFIGMAPS}?watch=true&timeoutSeconds=1")
    seen = [(each.verb, each.resource, each.subresource, each.name, each.dry_run, each.code) for each in sandbox.audit]
    assert seen == [
        ("create", "configmaps", "", "", False, 201),
        ("get", "configmaps", "", "none", False, 404),
        ("create", "configmaps", "", "", True, 201),
        ("patch", "pods", "status", "p", False, 404),
        ("watch", "configmaps", "", "", False, 200),
    ]
    assert {(each.user, each.namespace) for each in sandbox.audit} == {("tester", "default")}
    assert [each.verb for each in sandbox.audit.writes_by("tester")] == ["create", "patch"]
    assert sandbox.audit.by("nobody") == []


def _record(name: str) -> Record:
    return Record("u", "create", "pods", "", "n", name, dry_run=False, code=201)


def test_only_the_last_records_are_kept_and_all_are_counted() -> None:
    audit = Audit(kept=2)
    for name in "abc":
        audit.add(_record(name))
    assert [record.name for record in audit] == ["b", "c"]
    assert audit.total == 3
    assert [record.name for record in audit.since(2)] == ["c"]
    assert audit.since(3) == []
