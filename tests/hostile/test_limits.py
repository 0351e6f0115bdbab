"""docs/security.md states limits: they are those of the code."""

from __future__ import annotations

import re

from gangctl.api.documents import DEFAULT_LIMITS
from gangctl.api.jobset import MAX_ITEMS
from gangctl.client import credentials, kubeconfig
from gangctl.gang.validate import MAX_JOBS
from gangctl.manager.settings import ControllerSettings
from gangctl.runtime.server import ListenerOptions, WebhookLimits
from gangctl.webhooks.review import MAX_OBJECT_VALUES, MAX_UPDATED_VALUES, MAX_VALUES
from tests.manifests.files import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
MIB = 2**20


def limit(what: str) -> str:
    """The middle cell of a row of the table."""
    match = re.search(rf"^\| {re.escape(what)} \| ([^|]*) \|", PAGE, flags=re.MULTILINE)
    assert match is not None, what
    return match[1]


def test_the_limits_are_those_of_the_code() -> None:
    limits, options = WebhookLimits(), ListenerOptions()
    stated = {
        "body of a webhook call": f"{limits.max_bytes // MIB} MiB",
        "all bodies in transit": f"{limits.max_held_bytes // MIB} MiB",
        "values in a body; in a new object; in one that gets more; objects without status and `managedFields`": (
            f"{MAX_VALUES:,}; {MAX_OBJECT_VALUES:,}; {MAX_UPDATED_VALUES:,}"
        ),
        "time for a body to arrive": f"{limits.read_seconds:g} s",
        "time for an answer": f"at most {limits.handler_seconds:g} s",
        "concurrent requests": f"{limits.max_at_once}",
        "idle connection, slow headers": f"{options.idle_seconds:g} s",
        "TLS handshake": f"{options.handshake_seconds:g} s",
        "ReplicatedJobs of one JobSet": f"{MAX_ITEMS:,}",
        "Jobs of one JobSet with gangs": f"{MAX_JOBS:,}",
        "a kubeconfig, and a file that it names": (
            f"{kubeconfig.FILE_BYTES // MIB} MiB and {kubeconfig.MATERIAL_BYTES // MIB} MiB"
        ),
        "output and run time of an exec plugin": (
            f"{credentials.OUTPUT_BYTES // MIB} MiB, {credentials.TIMEOUT_SECONDS:g} s"
        ),
    }
    assert [what for what, text in stated.items() if text not in limit(what)] == []
    manifest = limit("a manifest given to the CLI")
    given = DEFAULT_LIMITS
    sizes = f"{given.max_bytes // MIB} MiB, {given.max_depth} levels, {given.max_values:,} values"
    assert manifest == f"{sizes}, {given.max_expanded:,} more by aliases"


def test_the_addresses_and_flags_are_those_of_the_process() -> None:
    fields = ControllerSettings.model_fields
    assert f"`--metrics-bind-address`, {fields['metrics_bind_address'].default}" in PAGE
    assert f"`--webhook-bind-address`, {':'.join(map(str, ControllerSettings().webhook_listener()))}" in PAGE
    flags = {name.replace("_", "-") for name in fields}
    named = set(re.findall(r"`--([a-z-]+)", PAGE))
    assert named <= flags | {"admission-control-config-file"}
