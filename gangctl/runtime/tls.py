"""Certificates and the TLS contexts that use them: authorities, server certificates, and a change of certificate.

Authorities are self-signed, and sign server certificates (ECDSA P-256, X.509 v3). ``load_cert_chain`` on a context in
use takes effect for every later handshake. But a certificate and a key that do not match break that context, even after
the exception: every later handshake fails. So a pair is tried in a separate context first.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gangctl.client.credentials import load_pair, pem_text
from gangctl.errors import ConfigError

# TLS 1.2 with forward secrecy and authenticated encryption only; TLS 1.3 has nothing weaker.
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """PEM of a certificate chain, leaf first, and of its private key, which no ``repr`` shows."""

    chain: bytes
    key: bytes = field(repr=False)


class ServerTls:
    """A server's context, and the pair it serves; :meth:`load` replaces the pair at any time."""

    def __init__(self, pair: KeyPair | None = None) -> None:
        """Start with ``pair``, ConfigError when it cannot be served.

        Without one, handshakes fail until it is loaded.
        """
        self.context: Final = server_context()
        self._pair: KeyPair | None = None
        if pair is not None:
            self.load(pair)

    def load(self, pair: KeyPair) -> bool:
        """Serve ``pair`` from the next handshake on; return whether it differs from the one before.

        ConfigError when it cannot be served; then the one before stays.
        """
        if pair == self._pair:
            return False
        # First in a context of its own: a pair that does not match must not replace half of the served one.
        check_pair(pair)
        _load(self.context, pair)
        self._pair = pair
        return True

    def accept(self, authorities: bytes) -> None:
        """From the next handshake on, also verify client certificates, where sent, with these PEM authorities.

        A client without one is accepted: each request decides whether it is required. An accepted authority stays
        accepted until the process ends. ConfigError when there are no certificates.
        """
        try:
            self.context.load_verify_locations(cadata=pem_text(authorities))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError("the client authorities are no PEM certificates") from error
        self.context.verify_mode = ssl.CERT_OPTIONAL


def server_context() -> ssl.SSLContext:
    """Make a context for a server that speaks HTTP/1.1 over TLS 1.2 or newer, without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    # In TLS 1.2 a client may ask for handshake after handshake, at the server's cost.
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def client_context(authorities: bytes) -> ssl.SSLContext:
    """Make a context that trusts exactly these PEM certificates; ConfigError when there are none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=pem_text(authorities))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError("the CA bundle holds no PEM certificates") from error
    return context


def check_pair(pair: KeyPair) -> None:
    """Raise ConfigError unless ``pair`` is a certificate chain and the key of its first certificate."""
    _load(server_context(), pair)


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    try:
        load_pair(context, pair.chain, pair.key)
    except ValueError as error:
        raise ConfigError(f"this certificate and key cannot be served: {error}") from error


# Certificates are valid from the past on, for API servers whose clocks are behind ours.
BACKDATED: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """PEM of an authority's certificate, and of its private key, which no ``repr`` shows."""

    certificate: bytes
    key: bytes = field(repr=False)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def found(now: datetime, lifetime: timedelta) -> Authority:
    """Make a self-signed authority that may sign only leaf certificates."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # Two authorities must not share a name: verifiers find the issuer by it.
    name = _name(f"gangctl-webhook-ca-{serial:x}"[:64])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(to_pem(certificate), _private(key))


def issue(authority: Authority, hosts: Collection[str], now: datetime, lifetime: timedelta) -> KeyPair:
    """Sign a certificate for a new key; it expires with its authority at the latest.

    ``hosts`` are DNS names and IP addresses. ConfigError when there are none, or when one cannot be in a certificate.
    """
    if not hosts:
        raise ConfigError("a certificate needs at least one host")
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = load(authority.certificate)
    issuer_key = load_pem_private_key(authority.key, None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise ConfigError("the authority's key is not an elliptic curve key")
    names = x509.SubjectAlternativeName([_general_name(host) for host in sorted(normal(hosts))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name("gangctl-webhook"))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(min(now + lifetime, issuer.not_valid_after_utc))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_issued_by(issuer), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return KeyPair(to_pem(certificate), _private(key))


def _issued_by(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    # Without this extension OpenSSL's strict mode refuses it, which Python's default contexts have since 3.13.
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier.value)


def _general_name(host: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ip_address(host))
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise ConfigError(f"{host!r} cannot be in a certificate", hint="write it in ASCII (punycode)") from error


def normal(hosts: Collection[str]) -> frozenset[str]:
    """Hosts as :func:`covered` returns them: names in lower case, addresses in their shortest form."""
    return frozenset(map(_normal, hosts))


def _normal(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return host.lower()


def covered(chain: bytes) -> frozenset[str]:
    """DNS names and addresses that the first certificate of a PEM chain is for; none where they cannot be read."""
    try:
        names = load(chain).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        # OpenSSL serves some certificates whose extensions this library refuses.
        return frozenset()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return frozenset((*names.get_values_for_type(x509.DNSName), *addresses))


def expires(chain: bytes) -> datetime:
    """When the first certificate of a PEM chain expires; ConfigError when there is none."""
    try:
        return load(chain).not_valid_after_utc
    except ValueError as error:
        raise ConfigError("the certificate is not PEM") from error


def load(pem: bytes) -> x509.Certificate:
    """The first certificate in ``pem``; ValueError when there is none."""
    return x509.load_pem_x509_certificate(pem)


def to_pem(certificate: x509.Certificate) -> bytes:
    """Write a certificate."""
    return certificate.public_bytes(Encoding.PEM)


def begun(certificate: x509.Certificate) -> datetime:
    """When it was issued."""
    return certificate.not_valid_before_utc + BACKDATED


def valid(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it is valid now: one that was issued by a clock that was ahead is not yet."""
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def third_left(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether at most a third of its lifetime is left."""
    end = certificate.not_valid_after_utc
    return now >= end - (end - begun(certificate)) / 3
