"""Exported policies: which there are, and that they have the verdicts of the policies that they were.

That a real kube-apiserver agrees is shown by tests/policies/test_native.py, which installs what is exported.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from gangctl.api.labelselector import NAMESPACE_NAME
from gangctl.api.meta import SKIP_LABEL
from gangctl.policy import export as module
from gangctl.policy.export import EXPORTED_FROM, difference, export
from gangctl.policy.load import load_policy
from gangctl.policy.native import Pair, load_native
from gangctl.webhooks.configurations import NAME
from tests.cli.policy.policies import FEW, QUEUE, QUEUED, exception, files, namespace, policy, rule
from tests.cli.policy.server import ask, serving
from tests.cli.run import fine, gangctl
from tests.jobsets import jobset, rj
from tests.policies.evaluated import evaluated_by
from tests.policies.pack import Object, Shipped, native, shipped
from tests.rows import each

NARROW: Final = "matchResources of the binding leaves out more"
EVALUATED: Final = (
    {"key": SKIP_LABEL, "operator": "NotIn", "values": ["true"]},
    {"key": NAMESPACE_NAME, "operator": "NotIn", "values": ["gangctl-system", "kube-system"]},
    {"key": "team", "operator": "In", "values": ["a", "b"]},
    {"key": "tier", "operator": "NotIn", "values": [f"t{index}" for index in range(100)]},
)
"""The namespaces that gangctl evaluates."""


def set_in(document: Object, path: str, value: Any) -> None:
    """Set a field of an object, and make what is missing on the way."""
    *keys, last = path.split(".")
    for key in keys:
        inner: Any = document
        document = inner[int(key)] if key.isdigit() else inner.setdefault(key, {})
    document[last] = value


def leave_out(natives: list[Object], term: Object) -> None:
    """Limit the binding to namespaces with this term, too."""
    set_in(natives[1], "spec.matchResources.namespaceSelector.matchExpressions", [term])


def said(loaded: Any, obj: Object, params: list[Object]) -> list[tuple[str, ...]]:
    outcome = evaluated_by(loaded, obj, params)
    return [(finding.result.value, finding.message, finding.reason) for finding in outcome.violations]


@each("policy", shipped(), ids=lambda policy: policy.name)
def test_what_reads_nothing_of_gangctls_is_exported(policy: Shipped) -> None:
    assert bool(export(load_policy(policy.document), minor="1.35").objects) is policy.native


@each("policy", tuple(native()), ids=lambda policy: policy.name)
def test_the_verdicts_are_the_same(policy: Shipped) -> None:
    own = load_policy(policy.document)
    (exported,) = load_native(export(own).objects)
    for resource in (*policy.resources.values(), policy.example):
        assert said(exported, resource, policy.params) == said(own, resource, policy.params)
    assert exported.actions == own.actions
    assert exported.fail_closed is own.fail_closed


@each(
    ("spec", "reason"),
    (
        (policy("p", FEW), "it reads gang, which only gangctl computes"),
        (policy("p", QUEUED, defaults={"gangMode": "Gang"}), "it sets defaults, and"),
        (policy("p", rule("has(object.metadata.`labels`)")), "Kubernetes 1.36 would refuse it: spec.validations[0]"),
    ),
    ids=("gang", "defaults", "newer syntax"),
)
def test_what_cannot_be_exported_has_a_reason(spec: Object, reason: str) -> None:
    exported = export(load_policy(spec), minor="1.36")
    assert not exported.objects
    assert exported.reasons[0].startswith(reason)


def test_the_namespaces_that_gangctl_leaves_out_are_left_out() -> None:
    (exported,) = load_native(export(load_policy(policy("p", QUEUED))).objects)
    bare = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {}}
    for home, refused in (("team-a", True), ("kube-system", False)):
        assert bool(said(exported, {**bare, "metadata": {"name": "a", "namespace": home}}, [])) is refused


@each(
    ("change", "why"),
    (
        (lambda _: None, ""),
        (lambda native: set_in(native[0], "spec.matchConstraints.matchPolicy", "Equivalent"), ""),
        (lambda native: set_in(native[1], "spec.matchResources.objectSelector", {}), ""),
        (lambda native: leave_out(native, {"key": SKIP_LABEL, "operator": "NotIn", "values": ["true"]}), ""),
        (lambda native: leave_out(native, {"key": "team", "operator": "In", "values": ["a", "b", "c"]}), ""),
        (lambda native: leave_out(native, {"key": "team", "operator": "In", "values": ["a"]}), NARROW),
        (lambda native: leave_out(native, {"key": "team", "operator": "Exists"}), NARROW),
        (lambda native: leave_out(native, EVALUATED[-1]), ""),
        (lambda native: leave_out(native, {"key": NAMESPACE_NAME, "operator": "NotIn", "values": ["a"]}), NARROW),
        (lambda native: set_in(native[1], "spec.matchResources.namespaceSelector.matchLabels", {"a": "b"}), NARROW),
        (lambda native: set_in(native[1], "spec.matchResources.objectSelector.matchLabels", {"a": "b"}), NARROW),
        (lambda native: set_in(native[1], "spec.validationActions", ["Warn"]), "validationActions is not the same"),
        (lambda native: set_in(native[0], "spec.validations.0.message", "?"), "validations is not the same in both"),
        (lambda native: set_in(native[0], "spec.failurePolicy", "Ignore"), "failurePolicy is not the same in both"),
        (lambda native: set_in(native[0], "spec.matchConditions", []), "matchConditions is not the same in both"),
        (lambda native: native.pop(), "one of the two objects is missing"),
    ),
    ids=lambda value: "" if callable(value) else value,
)
def test_gangctl_evaluates_what_api_servers_do_not(change: Callable[[list[Object]], object], why: str) -> None:
    own = load_policy(policy("p", QUEUED))
    natives = [copy.deepcopy(dict(one)) for one in export(own).objects]
    change(natives)
    found = difference(own, (), Pair(natives[0], natives[1] if natives[1:] else None), EVALUATED)
    assert found.startswith(why)
    assert bool(found) is bool(why)


def test_an_exported_policy_is_not_evaluated_beside_its_origin(tmp_path: Path) -> None:
    paths = files(tmp_path, policies=[policy("queued", QUEUED)], jobsets=[jobset("a", rj("w"))])
    native = tmp_path / "native.yaml"
    for message, findings in (("needs a queue", 1), ("other", 2)):
        native.write_text(fine("policy", "export", paths["policies"]).out.replace("needs a queue", message))
        answer = gangctl(
            "policy", "eval", "--policy", paths["policies"], "--policy", str(native), "-f", paths["jobsets"]
        )
        assert answer.out.count(" fail ") == findings, answer.out


def test_an_exported_policy_has_no_exceptions(tmp_path: Path) -> None:
    """API servers go on denying what the GangPolicy allows."""
    paths = files(tmp_path, policies=[policy("queued", QUEUED)], jobsets=[jobset("a", rj("w"))])
    native, excepted = tmp_path / "native.yaml", files(tmp_path, exceptions=[exception("later", "queued")])
    native.write_text(fine("policy", "export", paths["policies"]).out)
    given = [flag for path in (paths["policies"], str(native), excepted["exceptions"]) for flag in ("--policy", path)]
    answer = gangctl("policy", "eval", *given, "-f", paths["jobsets"], "-o", "json")
    assert (answer.code, [denial["policy"] for denial in answer.json["denials"]]) == (1, ["queued/queued"])


def test_an_exception_keeps_a_policy_with_gangctl(tmp_path: Path) -> None:
    named = files(tmp_path, policies=[policy("queued", QUEUED), exception("later", "queued")])["policies"]
    answer = gangctl("policy", "export", named)
    assert answer.code == 1
    assert "queued is not exported: GangPolicyException later names it" in answer.err
    other = files(tmp_path, policies=[policy("queued", QUEUED), exception("later", "another")])["policies"]
    assert EXPORTED_FROM in fine("policy", "export", other).out


def test_a_difference_fails_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = files(tmp_path, policies=[policy("queued", QUEUED)], jobsets=[jobset("a", rj("w"))])
    answer = fine("policy", "export", paths["policies"], "--check", paths["jobsets"])
    assert answer.err == "note: 1 verdict compared, all the same; 1 violation among them\n"
    monkeypatch.setattr(module, "NOT_DELETED_CONDITION", {"name": "never", "expression": "false"})
    answer = gangctl("policy", "export", paths["policies"], "--check", paths["jobsets"])
    assert answer.code == 1
    assert answer.err == "note: JobSet t/a, queued: Deny (Invalid): needs a queue; exported: allowed\n"


async def test_policies_of_a_cluster_are_exported(tmp_path: Path) -> None:
    async with serving(policies=[policy("queued", QUEUED), policy("few", FEW)]) as (_, url):
        answer = await ask(tmp_path, url, "export", "-o", "table")
    assert answer.out == (
        "NAME     EXPORTED   REASON\n"
        "few      no         it reads gang, which only gangctl computes\n"
        "queued   yes        -\n"
    )


def labelled_by_a_webhook(sent: Object) -> web.Response:
    return web.json_response({**sent, "metadata": {**sent["metadata"], "labels": {QUEUE: "research"}}})


def refused_by_a_webhook(_: Object) -> web.Response:
    message = 'admission webhook "a.b" denied the request: no'
    return web.json_response({"kind": "Status", "reason": "Invalid", "message": message, "code": 422}, status=422)


@each(
    ("webhook", "said"),
    (
        (labelled_by_a_webhook, "note: 1 verdict compared, all the same; 0 violations among them\n"),
        (
            refused_by_a_webhook,
            "note: 0 verdicts compared, all the same; 0 violations among them; the API server does not show 1 more\n",
        ),
    ),
)
async def test_the_check_in_a_cluster_is_of_what_webhooks_made_of_the_object(
    webhook: Callable[[Object], web.Response], said: str, tmp_path: Path
) -> None:
    paths = files(tmp_path, jobsets=[jobset("a", rj("w"))])
    async with serving(policies=[policy("queued", QUEUED)], namespaces=[]) as (server, url):
        server.dry_run = webhook
        answer = await ask(tmp_path, url, "export", "--check", paths["jobsets"], "-o", "name")
    assert (answer.code, answer.err) == (0, said)


async def test_what_a_cluster_exports_is_about_the_namespaces_of_its_webhook(tmp_path: Path) -> None:
    managed = {"key": "gangctl.dev/managed", "operator": "In", "values": ["true"]}
    terms = [*EVALUATED[:2], managed]
    hooks = {"metadata": {"name": NAME}, "webhooks": [{"namespaceSelector": {"matchExpressions": terms}}]}
    paths = files(tmp_path, jobsets=[jobset("a", rj("w"))])
    async with serving(policies=[policy("queued", QUEUED)], namespaces=[namespace("t")]) as (server, url):
        server.named[f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{NAME}"] = hooks
        server.dry_run = web.json_response
        answer = await ask(tmp_path, url, "export", "--check", paths["jobsets"])
    assert answer.documents[1]["spec"]["matchResources"]["namespaceSelector"] == {"matchExpressions": terms}
    assert answer.err == "note: 0 verdicts compared, all the same; 0 violations among them\n"
