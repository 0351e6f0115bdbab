"""
The certificates of one plane.

Every user of the API gets a client certificate of its own, because the audit log then says who wrote what, and RBAC
can be tested with the rights a component has in a real cluster.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LOOPBACK = (x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost"))
_LIFETIME = dt.timedelta(days=30)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its key as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that writes what it issues into one directory."""

    def __init__(self, name: str, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, self._name, self._key.public_key(), self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = builder.add_extension(_key_usage(signs_certificates=True), critical=True).sign(
            self._key, hashes.SHA256()
        )
        self.certificate = directory / f"{name}.crt"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str, addresses: Sequence[str] = ()) -> KeyPair:
        """A serving certificate for 127.0.0.1 and ``addresses``, named as webhook servers expect: tls.crt, tls.key."""
        directory = self._directory / name
        directory.mkdir()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._issue(subject, directory / "tls", served=(*_LOOPBACK, *map(_address, addresses)))

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A client certificate that the API server reads as this user in these groups."""
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, user),
            ]
        )
        return self._issue(subject, self._directory / file_name(user, groups))

    def _issue(self, subject: x509.Name, stem: Path, *, served: Sequence[x509.GeneralName] = ()) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if served else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = _builder(subject, self._name, key.public_key(), self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if served:
            builder = builder.add_extension(x509.SubjectAlternativeName(served), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pair = KeyPair(stem.with_name(f"{stem.name}.crt"), stem.with_name(f"{stem.name}.key"))
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_key(key, pair.key)
        return pair


class Pki:
    """All trust of one plane: cluster CA, front-proxy CA and the key that signs service account tokens."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.cluster = Authority("ca", directory)
        # The API server refuses to start when the front proxy's authority is the clients' own.
        self.front_proxy = Authority("front-proxy-ca", directory)
        self.service_account_key = directory / "service-account.key"
        write_key(ec.generate_private_key(ec.SECP256R1()), self.service_account_key)


def file_name(user: str, groups: Sequence[str]) -> str:
    """A readable file name for a user, with nothing in it that a path could trip over."""
    text = "+".join([user, *groups])
    return "".join(letter if letter.isalnum() or letter in "+-." else "_" for letter in text)


def write_key(key: ec.EllipticCurvePrivateKey, path: Path) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )


def _address(address: str) -> x509.IPAddress:
    return x509.IPAddress(ipaddress.ip_address(address))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, issuer_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
