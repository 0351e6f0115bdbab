"""gangctl's own certificate authority: the content of its Secret, and the rotation step that is due at a given time.

Every replica serves with the one certificate in one Secret, and API servers trust what the webhook configurations
carry. Neither notices a change at once. So a new authority takes three steps, ``overlap`` apart: it is *introduced*
(trusted, not used), then it *signs* the certificate, and only then the old one is *dropped*. As long as replicas and
API servers notice each step within the overlap, every API server trusts every served certificate at any time.

Nothing here reads a clock or the API; only keys are random.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from gangctl.errors import ConfigError
from gangctl.runtime.tls import (
    Authority,
    KeyPair,
    begun,
    covered,
    found,
    issue,
    load,
    normal,
    third_left,
    to_pem,
    valid,
)

CA_CERTIFICATE: Final = "ca.crt"
CA_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
NEXT_CERTIFICATE: Final = "next-ca.crt"
NEXT_KEY: Final = "next-ca.key"
PREVIOUS: Final = "previous-ca.crt"


@dataclass(frozen=True, slots=True)
class Rotation:
    """Lifetimes, and how long each step of a rotation may take to reach all replicas and API servers.

    A certificate, and an authority, is replaced when a third of its lifetime is left. A replaced one may be in use for
    another ``overlap``, and a new authority signs only after one: ConfigError when that would not fit into the third
    that is left.
    """

    authority: timedelta = timedelta(days=365)
    certificate: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        """Reject times with which handshakes would fail."""
        # A sixth of the authority's: its last third has one overlap before the new one signs, and one after that.
        fits = timedelta(0) < self.overlap < min(self.certificate / 3, self.authority / 6)
        if not fits or self.certificate > self.authority:
            raise ConfigError(
                "certificates: they must not outlive their authority, and the overlap must be shorter than "
                "a third of a certificate's time and a sixth of the authority's"
            )


@dataclass(frozen=True, slots=True)
class CertificateBundle:
    """The content of the Secret: current authority, served certificate, next and previous authority."""

    authority: Authority
    pair: KeyPair
    following: Authority | None = None
    previous: tuple[bytes, ...] = ()

    @property
    def trusted(self) -> bytes:
        """PEM of all authorities that API servers should trust now."""
        following = () if self.following is None else (self.following.certificate,)
        return b"".join((self.authority.certificate, *following, *self.previous))

    def to_secret(self, name: str, namespace: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The ``v1`` Secret of type Opaque to create."""
        data = {
            CA_CERTIFICATE: self.trusted,
            CA_KEY: self.authority.key,
            CERTIFICATE: self.pair.chain,
            KEY: self.pair.key,
        }
        if self.following is not None:
            data |= {NEXT_CERTIFICATE: self.following.certificate, NEXT_KEY: self.following.key}
        if self.previous:
            data[PREVIOUS] = b"".join(self.previous)
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
            "type": "Opaque",
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }

    @classmethod
    def from_secret(cls, secret: Mapping[str, Any]) -> CertificateBundle:
        """Read what :meth:`to_secret` wrote; ConfigError when it is incomplete, or its parts do not match."""
        data = _decoded(secret.get("data") or {})
        missing = [key for key in (CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY) if not data.get(key)]
        if missing:
            raise ConfigError(f"the Secret lacks {', '.join(missing)}")
        try:
            signers = [
                to_pem(load_pem_x509_certificate)
                for load_pem_x509_certificate in x509.load_pem_x509_certificates(data[CA_CERTIFICATE])
            ]
            previous = x509.load_pem_x509_certificates(data[PREVIOUS]) if data.get(PREVIOUS) else []
        except ValueError as error:
            raise ConfigError("the Secret holds authorities that are not PEM certificates") from error
        following = Authority(data[NEXT_CERTIFICATE], data.get(NEXT_KEY, b"")) if data.get(NEXT_CERTIFICATE) else None
        bundle = cls(
            # ``trusted`` writes the current authority first.
            Authority(signers[0], data[CA_KEY]),
            KeyPair(data[CERTIFICATE], data[KEY]),
            following,
            tuple(map(to_pem, previous)),
        )
        _check(bundle)
        return bundle


class Due(StrEnum):
    """The next rotation step of a bundle."""

    NOTHING = "nothing"
    CERTIFICATE = "renew the certificate"
    INTRODUCE = "introduce a new authority"
    SWITCH = "sign with the new authority"
    DROP = "drop the old authority"
    EVERYTHING = "begin anew"


def due(bundle: CertificateBundle, now: datetime, rotation: Rotation, hosts: Collection[str]) -> Due:
    """The step that is due at ``now``, for a certificate that must cover ``hosts`` (DNS names and addresses)."""
    authority, leaf = load(bundle.authority.certificate), load(bundle.pair.chain)
    following = None if bundle.following is None else load(bundle.following.certificate)
    if following is not None and valid(following, now):
        # The Secret holds no times of steps: that of this one is in the certificate itself.
        # Clients reject everything by an authority that is not valid, so there is no reason to wait.
        if now >= begun(following) + rotation.overlap or not valid(authority, now):
            return Due.SWITCH
    elif not valid(authority, now):
        return Due.EVERYTHING
    elif third_left(authority, now):
        return Due.INTRODUCE
    if not valid(leaf, now) or third_left(leaf, now) or not normal(hosts) <= covered(bundle.pair.chain):
        return Due.CERTIFICATE
    # Since the new authority signed: other replicas may serve the certificate before that for one overlap.
    known_for = now - begun(leaf)
    if bundle.previous and (
        known_for >= rotation.overlap
        or all(now >= load(authority).not_valid_after_utc for authority in bundle.previous)
    ):
        return Due.DROP
    return Due.NOTHING


def advance(
    bundle: CertificateBundle, step: Due, now: datetime, rotation: Rotation, hosts: Collection[str]
) -> CertificateBundle:
    """The bundle after one step.

    Hosts that the certificate covered stay covered: those of other replicas may differ.
    """
    every_host = {*normal(hosts), *covered(bundle.pair.chain)}
    match step:
        case Due.CERTIFICATE:
            return replace(bundle, pair=issue(bundle.authority, every_host, now, rotation.certificate))
        case Due.INTRODUCE:
            return replace(bundle, following=found(now, rotation.authority))
        case Due.SWITCH if bundle.following is not None:
            pair = issue(bundle.following, every_host, now, rotation.certificate)
            # Of the old authority only the certificate stays, to be trusted: it signs nothing any more.
            return CertificateBundle(bundle.following, pair, None, (bundle.authority.certificate, *bundle.previous))
        case Due.DROP:
            return replace(bundle, previous=())
        case Due.EVERYTHING:
            return create(now, rotation, every_host)
    return bundle


def create(now: datetime, rotation: Rotation, hosts: Collection[str]) -> CertificateBundle:
    """Make a new authority and a certificate for ``hosts``, which are DNS names or IP addresses, at least one."""
    authority = found(now, rotation.authority)
    return CertificateBundle(authority, issue(authority, hosts, now, rotation.certificate))


def _decoded(data: Mapping[str, Any]) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(value, validate=True) for key, value in data.items()}
    except (binascii.Error, TypeError, ValueError) as error:
        raise ConfigError("the Secret's data is not base64") from error


def _check(bundle: CertificateBundle) -> None:
    """Raise ConfigError unless every key fits its certificate and the authority signed the served one."""
    pairs = [bundle.authority, Authority(bundle.pair.chain, bundle.pair.key)]
    pairs += [bundle.following] if bundle.following is not None else []
    try:
        for native in pairs:
            if _public(load_pem_private_key(native.key, None)) != _public(load(native.certificate)):
                raise ConfigError("a key in the Secret does not belong to its certificate")
        load(bundle.pair.chain).verify_directly_issued_by(load(bundle.authority.certificate))
    except (ValueError, TypeError, InvalidSignature) as error:
        raise ConfigError("the certificates and keys in the Secret do not belong together") from error


def _public(holder: Any) -> bytes:
    key = holder.public_key()
    return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
