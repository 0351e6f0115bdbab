"""How far a configuration in the cluster is from what is wanted, and what would bring it there. Pure."""

from __future__ import annotations

import base64
import copy
import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

Object = dict[str, Any]

FINGERPRINT: Final = "gangctl.dev/configuration"
"""Annotation with a hash of what was wanted when it was written: tells what another version left behind."""


def contains(live: Any, wanted: Any) -> bool:
    """Whether ``live`` has every field of ``wanted``; what else it has, the server or others have set.

    Lists must have the same length, and absent is the same as empty.
    """
    if isinstance(wanted, dict):
        return isinstance(live, dict | None) and all(
            contains((live or {}).get(key), each) for key, each in wanted.items()
        )
    if isinstance(wanted, list):
        entries = live or []
        return isinstance(entries, list) and len(entries) == len(wanted) and all(map(contains, entries, wanted))
    return type(live) is type(wanted) and bool(live == wanted)


def replaced(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object:
    """``wanted`` in the place of ``live``: as fresh as it was read, with the labels and annotations that others put on.

    Where ``wanted`` has no caBundle, the one that is there stays: somebody injects it.
    """
    target: Object = {**live, **copy.deepcopy(dict(wanted))}
    before = live.get("metadata") or {}
    target["metadata"] = {**before, **target["metadata"]}
    for kept in ("labels", "annotations"):
        values = {**(before.get(kept) or {}), **(wanted["metadata"].get(kept) or {})}
        if values:
            target["metadata"][kept] = values
    bundles = {str(each.get("name")): _client_config(each).get("caBundle") for each in _webhooks(live)}
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
    """The webhooks of what somebody may have written by hand into a server that lets them."""
    webhooks = live.get("webhooks")
    return [each for each in webhooks if isinstance(each, dict)] if isinstance(webhooks, list) else []


def _client_config(webhook: Mapping[str, Any]) -> Object:
    config = webhook.get("clientConfig")
    return config if isinstance(config, dict) else {}


def fingerprinted(wanted: Object) -> Object:
    """The same with an annotation that says what it is, whatever the authorities are."""
    plain = copy.deepcopy(wanted)
    for webhook in plain.get("webhooks") or []:
        webhook["clientConfig"].pop("caBundle", None)
    digest = hashlib.sha256(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
    metadata = wanted["metadata"]
    annotations = {**(metadata.get("annotations") or {}), FINGERPRINT: digest}
    return {**wanted, "metadata": {**metadata, "annotations": annotations}}
