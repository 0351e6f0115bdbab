"""From the process's settings to those of its webhooks."""

from __future__ import annotations

from gangctl.manager.settings import ControllerSettings, parse_selector
from gangctl.webhooks.configurations import Endpoint, WebhookSettings


def webhook_settings(settings: ControllerSettings, own_namespace: str) -> WebhookSettings:
    """The choices of the webhooks' configurations that the settings make."""
    # What runs in gangctl's own namespace must not wait for gangctl. Out of a cluster that may be the namespace
    # ``default``, which is everybody's.
    excluded = {"kube-system", own_namespace} - {"default"}
    endpoint = Endpoint(
        url=settings.webhook_url or "",
        service=settings.webhook_service,
        namespace=own_namespace,
        port=settings.webhook_service_port,
    )
    selector = parse_selector(settings.namespace_selector) if settings.namespace_selector else []
    return WebhookSettings(
        endpoint,
        sorted(excluded),
        selector,
        failure_policy=settings.webhook_failure_policy,
        # A pod without its reference does not count, and the rest of its gang would wait for it for ever.
        jobs_failure_policy="Fail",
        timeout_seconds=settings.webhook_timeout,
    )
