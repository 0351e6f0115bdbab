"""Differences from the wanted configuration are found, and additions by the server or others are kept."""

from __future__ import annotations

import base64
import copy
from typing import Any

from hypothesis import given

from gangctl.webhooks.registration import FINGERPRINT, contains, fingerprinted, replaced, with_authorities
from tests.api.test_jsonpatch import JSON, OBJECTS
from tests.rows import each

WANTED: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "gangctl-gangs", "labels": {"app": "gangctl"}},
    "webhooks": [
        {
            "name": "jobsets.gangs.gangctl.dev",
            "clientConfig": {"url": "https://127.0.0.1:9443/mutate", "caBundle": "b3Vycw=="},
            "rules": [{"operations": ["CREATE"], "resources": ["jobsets"]}],
            "objectSelector": {},
        }
    ],
}


def stored() -> dict[str, Any]:
    """The same as a server returns it."""
    live = copy.deepcopy(WANTED)
    live["metadata"] |= {"uid": "1", "resourceVersion": "7", "generation": 1, "annotations": {"other": "x"}}
    live["webhooks"][0] |= {"matchPolicy": "Equivalent", "namespaceSelector": {}, "timeoutSeconds": 10}
    live["webhooks"][0]["rules"][0]["scope"] = "*"
    del live["webhooks"][0]["objectSelector"]
    return live


def test_fields_added_by_the_server_are_no_difference() -> None:
    assert contains(stored(), WANTED)


@each(
    "change",
    [
        lambda live: live["webhooks"].clear(),
        lambda live: live.pop("webhooks"),
        lambda live: live["webhooks"].append({"name": "more"}),
        lambda live: live["webhooks"][0]["clientConfig"].update(caBundle="dGhlaXJz"),
        lambda live: live["webhooks"][0]["clientConfig"].pop("caBundle"),
        lambda live: live["webhooks"][0]["rules"][0]["operations"].append("DELETE"),
        lambda live: live["webhooks"][0].update(objectSelector=3),
        lambda live: live["metadata"]["labels"].pop("app"),
        lambda live: live.update(webhooks="none"),
    ],
)
def test_a_changed_field_is_a_difference(change: Any) -> None:
    live = stored()
    change(live)
    assert not contains(live, WANTED)


@each(("live", "wanted"), [(1, True), (0, None), ("1", 1), ({}, 1), ([1], {}), ({"a": 1}, [])])
def test_values_of_different_types_differ(live: object, wanted: object) -> None:
    assert not contains(live, wanted)


@given(JSON)
def test_any_value_contains_itself(value: Any) -> None:
    assert contains(copy.deepcopy(value), value)


@given(OBJECTS, OBJECTS)
def test_an_object_with_more_keys_contains_the_original(live: dict[str, Any], more: dict[str, Any]) -> None:
    assert contains({**more, **live}, live)


def test_a_replacement_keeps_foreign_labels() -> None:
    live = stored()
    live["metadata"]["labels"] = {"app": "changed", "team": "infra"}
    live["webhooks"][0]["matchConditions"] = [{"name": "sneaked-in"}]
    target = replaced(live, fingerprinted(WANTED))
    assert target["metadata"]["resourceVersion"] == "7"
    assert target["metadata"]["labels"] == {"app": "gangctl", "team": "infra"}
    assert target["metadata"]["annotations"].keys() == {"other", FINGERPRINT}
    assert target["webhooks"] == WANTED["webhooks"]
    assert contains(target, fingerprinted(WANTED))


def test_an_injected_ca_bundle_is_kept_if_none_is_wanted() -> None:
    wanted = copy.deepcopy(WANTED)
    del wanted["webhooks"][0]["clientConfig"]["caBundle"]
    live = stored()
    live["webhooks"][0]["clientConfig"]["caBundle"] = "aW5qZWN0ZWQ="
    assert contains(live, wanted)
    assert replaced(live, wanted)["webhooks"][0]["clientConfig"]["caBundle"] == "aW5qZWN0ZWQ="
    assert "caBundle" not in wanted["webhooks"][0]["clientConfig"]
    assert replaced(live, WANTED)["webhooks"][0]["clientConfig"]["caBundle"] == "b3Vycw=="


def test_a_new_ca_bundle_changes_nothing_else() -> None:
    live = stored()
    target = with_authorities(live, b"new")
    assert target["webhooks"][0].pop("clientConfig")["caBundle"] == base64.b64encode(b"new").decode()
    del live["webhooks"][0]["clientConfig"]
    assert target == live
    assert with_authorities(stored(), b"") == stored()
    assert with_authorities({"metadata": {}}, b"new") == {"metadata": {}}


def test_the_fingerprint_covers_everything_but_the_ca_bundle() -> None:
    def fingerprint(change: Any) -> str:
        wanted = copy.deepcopy(WANTED)
        change(wanted)
        return str(fingerprinted(wanted)["metadata"]["annotations"][FINGERPRINT])

    same = fingerprint(lambda wanted: wanted["webhooks"][0]["clientConfig"].update(caBundle="bmV3"))
    assert same == fingerprint(lambda _: None)
    assert same != fingerprint(lambda wanted: wanted["webhooks"][0].update(failurePolicy="Ignore"))
    assert same != fingerprint(lambda wanted: wanted["webhooks"][0].pop("objectSelector"))


def test_what_aks_adds_to_a_selector_is_no_difference() -> None:
    own = {"key": "a", "operator": "Exists"}
    added = [
        {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
        {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
    ]
    assert contains({"matchExpressions": [*added, own]}, {"matchExpressions": [own]})
    assert not contains({"matchExpressions": [{"key": "b", "operator": "Exists"}, own]}, {"matchExpressions": [own]})
