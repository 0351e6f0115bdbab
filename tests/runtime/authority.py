"""A certificate authority for tests, apart from gangctl's own: keys and certificates by name, in PEM."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from gangctl.runtime.tls import KeyPair

START = datetime(2020, 1, 1, tzinfo=UTC)
END = START + timedelta(days=36500)


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@functools.cache
def authority(name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(START).not_valid_after(END)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return key, builder.sign(key, hashes.SHA256())


def bundle(*names: str) -> bytes:
    return b"".join(authority(name)[1].public_bytes(Encoding.PEM) for name in names)


@functools.cache
def pair(issuer: str, name: str = "leaf", begin: datetime = START, end: datetime = END) -> KeyPair:
    """A pair for localhost and 127.0.0.1, signed by ``issuer``; another ``name``, another key."""
    issuer_key, issuer_certificate = authority(issuer)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    hosts = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer_certificate.subject)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(begin).not_valid_after(end).add_extension(hosts, critical=False)
    return KeyPair(builder.sign(issuer_key, hashes.SHA256()).public_bytes(Encoding.PEM), pem(key))
