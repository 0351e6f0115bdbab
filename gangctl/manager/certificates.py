"""Certificates of gangctl's own authority, in one Secret for every listener of every replica."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Final

from gangctl.api.meta import MANAGER
from gangctl.client.client import Client
from gangctl.manager.settings import ControllerSettings
from gangctl.runtime.certs import Rotation
from gangctl.runtime.certsource import POLL_SECONDS, SecretCertificates

SECRET: Final = "gangctl-webhook-certs"  # noqa: S105 - the name of one
LABELS: Final = {"app.kubernetes.io/managed-by": MANAGER}


def own_certificates(
    client: Client,
    settings: ControllerSettings,
    own_namespace: str,
    hosts: Collection[str],
    observe: Callable[[bool], None] | None = None,
) -> SecretCertificates:
    """The certificate to serve as ``hosts``; the hosts of other listeners are covered by the same certificate."""
    rotation = _rotation(settings)
    return SecretCertificates(
        client,
        SECRET,
        own_namespace,
        hosts,
        rotation=rotation,
        labels=LABELS,
        poll_seconds=min(POLL_SECONDS, rotation.overlap.total_seconds() / 5),
        observe=observe,
    )


def _rotation(settings: ControllerSettings) -> Rotation:
    """Each step of a rotation has ten minutes to reach all replicas, or less with shorter certificate lifetimes."""
    certificate, authority = timedelta(seconds=settings.cert_lifetime), timedelta(seconds=settings.ca_lifetime)
    return Rotation(authority, certificate, min(timedelta(minutes=10), certificate / 4, authority / 8))
