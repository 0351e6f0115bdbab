"""The webhook for Jobs, which is called for a Job that the policy for Jobs has missed."""

from __future__ import annotations

import re
from typing import Final

from gangctl.webhooks.configurations import JOBS_NAME
from tests.controlplane.api import path_of
from tests.live.cluster import Cluster

REGISTRATION: Final = "admissionregistration.k8s.io/v1"
JOB_WEBHOOKS: Final = path_of(REGISTRATION, "mutatingwebhookconfigurations", name=JOBS_NAME)
CALLS: Final = re.compile(
    r'^apiserver_admission_webhook_request_total\{.*name="jobs\.gangs\.gangctl\.dev".*\} (\S+)$', re.MULTILINE
)


async def calls(cluster: Cluster) -> float:
    """How often the API server asked gangctl about a Job."""
    return sum(float(value) for value in CALLS.findall(await cluster.api.text("/metrics")))


async def exists(cluster: Cluster, path: str) -> bool:
    collection, _, name = path.rpartition("/")
    return name in {each["metadata"]["name"] for each in await cluster.api.list(collection)}
