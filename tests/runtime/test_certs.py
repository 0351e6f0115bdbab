"""Certificates are renewed in time, and no handshake fails at any step of a rotation."""

from __future__ import annotations

import base64
import functools
import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID
from hypothesis import given, settings
from hypothesis import strategies as st

from gangctl.errors import ConfigError
from gangctl.runtime.certs import CertificateBundle, Due, Rotation, advance, create, due
from gangctl.runtime.tls import check_pair, covered, expires, found, issue, load, normal, to_pem
from tests.rows import each

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HOSTS = ("gangctl-webhook.gangctl-system.svc", "127.0.0.1")
ROTATION = Rotation()


def after(time: timedelta, bundle: CertificateBundle, hosts: Sequence[str] = HOSTS) -> Due:
    return due(bundle, NOW + time, ROTATION, hosts)


def step(bundle: CertificateBundle, expected: Due, time: timedelta) -> CertificateBundle:
    assert after(time, bundle) is expected
    return advance(bundle, expected, NOW + time, ROTATION, HOSTS)


# Certificates


def test_an_authority_may_sign_end_certificates_only() -> None:
    certificate = load(create(NOW, ROTATION, HOSTS).authority.certificate)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert (usage.key_cert_sign, usage.digital_signature) == (True, False)
    assert certificate.not_valid_after_utc == NOW + 365 * DAY
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"


def test_a_certificate_is_for_servers_at_its_hosts() -> None:
    bundle = create(NOW, ROTATION, HOSTS)
    certificate = load(bundle.pair.chain)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert covered(bundle.pair.chain) == set(HOSTS)
    assert expires(bundle.pair.chain) == NOW + 90 * DAY
    check_pair(bundle.pair)


def test_an_independent_verifier_accepts_the_chain() -> None:
    bundle = create(NOW, ROTATION, HOSTS)
    store = x509.verification.Store(x509.load_pem_x509_certificates(bundle.trusted))
    builder = x509.verification.PolicyBuilder().store(store)
    for when in (NOW - timedelta(minutes=59), NOW, NOW + 89 * DAY):
        verifier = builder.time(when).build_server_verifier(x509.DNSName(HOSTS[0]))
        assert len(verifier.verify(load(bundle.pair.chain), [])) == 2
    verifier = builder.time(NOW + 91 * DAY).build_server_verifier(x509.DNSName(HOSTS[0]))
    with pytest.raises(x509.verification.VerificationError):
        verifier.verify(load(bundle.pair.chain), [])


def test_two_authorities_do_not_share_a_name() -> None:
    names = {load(found(NOW, DAY).certificate).subject for _ in range(3)}
    assert len(names) == 3


def test_a_certificate_ends_with_its_authority() -> None:
    authority = found(NOW, 10 * DAY)
    assert expires(issue(authority, HOSTS, NOW + 5 * DAY, 90 * DAY).chain) == NOW + 10 * DAY


@each("hosts", [[], ["grüezi.example"]])
def test_hosts_that_a_certificate_cannot_name_are_refused(hosts: list[str]) -> None:
    with pytest.raises(ConfigError):
        create(NOW, ROTATION, hosts)


def test_hosts_are_compared_in_one_form() -> None:
    hosts = ["LOCALHOST", "::0001", "10.0.0.1"]
    assert normal(hosts) == covered(create(NOW, ROTATION, hosts).pair.chain) == {"localhost", "::1", "10.0.0.1"}


def test_names_that_cannot_be_read_are_none() -> None:
    """Such as those of a certificate that an operator's own tool has made: it is served all the same."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    garbled = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW + DAY)
        .add_extension(x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"garbled"), critical=False)
        .sign(key, SHA256())
    )
    assert covered(to_pem(garbled)) == frozenset()


def test_the_expiry_of_an_invalid_certificate_is_an_error() -> None:
    with pytest.raises(ConfigError):
        expires(b"")


# The Secret


def test_a_bundle_survives_a_round_trip_through_its_secret() -> None:
    bundle = create(NOW, ROTATION, HOSTS)
    introduced = advance(bundle, Due.INTRODUCE, NOW, ROTATION, HOSTS)
    switched = advance(introduced, Due.SWITCH, NOW, ROTATION, HOSTS)
    for state in (bundle, introduced, switched, advance(switched, Due.INTRODUCE, NOW, ROTATION, HOSTS)):
        secret = state.to_secret("certs", "gangctl-system", {"a": "b"})
        assert CertificateBundle.from_secret(json.loads(json.dumps(secret))) == state
        assert base64.b64decode(secret["data"]["ca.crt"]) == state.trusted
        assert (secret["type"], secret["metadata"]["labels"]) == ("Opaque", {"a": "b"})


OTHER = create(NOW, ROTATION, HOSTS)


def broken(**changes: bytes) -> dict[str, Any]:
    bundle = advance(create(NOW, ROTATION, HOSTS), Due.INTRODUCE, NOW, ROTATION, HOSTS)
    secret = bundle.to_secret("certs", "ns")
    secret["data"] |= {key.replace("_", "."): base64.b64encode(value).decode() for key, value in changes.items()}
    return secret


@each(
    ("secret", "complaint"),
    [
        ({}, "lacks ca.crt, ca.key, tls.crt, tls.key"),
        ({"data": None}, "lacks ca.crt"),
        (broken(ca_key=b""), "lacks ca.key"),
        (broken(ca_crt=b"garbage"), "not PEM"),
        (broken(**{"previous-ca_crt": b"garbage"}), "not PEM"),
        (broken(tls_crt=b"garbage"), "do not belong together"),
        (broken(tls_key=b"garbage"), "do not belong together"),
        (broken(tls_key=OTHER.pair.key), "a key in the Secret does not belong to its certificate"),
        (broken(ca_key=OTHER.authority.key), "a key in the Secret does not belong to its certificate"),
        (broken(ca_key=OTHER.authority.key, ca_crt=OTHER.authority.certificate), "do not belong together"),
        (broken(**{"next-ca_key": b""}), "do not belong together"),
        ({"data": {"ca.crt": "!"}}, "not base64"),
        ({"data": {"ca.crt": 3}}, "not base64"),
    ],
)
def test_an_incomplete_secret_is_refused(secret: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        CertificateBundle.from_secret(secret)


def test_keys_are_never_shown() -> None:
    bundle = advance(create(NOW, ROTATION, HOSTS), Due.INTRODUCE, NOW, ROTATION, HOSTS)
    assert "PRIVATE" not in repr(bundle)


# What is due


def test_a_fresh_bundle_needs_no_renewal() -> None:
    bundle = create(NOW, ROTATION, HOSTS)
    assert after(timedelta(0), bundle) is Due.NOTHING
    assert after(60 * DAY - timedelta(seconds=1), bundle) is Due.NOTHING
    assert advance(bundle, Due.NOTHING, NOW, ROTATION, HOSTS) == bundle


def test_a_certificate_is_renewed_when_a_third_of_its_time_is_left() -> None:
    bundle = create(NOW, ROTATION, HOSTS)
    renewed = step(bundle, Due.CERTIFICATE, 60 * DAY)
    assert renewed.authority == bundle.authority
    assert renewed.pair != bundle.pair
    assert expires(renewed.pair.chain) == NOW + 150 * DAY
    assert after(60 * DAY, renewed) is Due.NOTHING


def test_a_new_host_is_added_to_the_hosts_of_the_certificate() -> None:
    bundle = create(NOW, ROTATION, HOSTS)
    hosts = ["localhost"]
    assert after(DAY, bundle, hosts) is Due.CERTIFICATE
    renewed = advance(bundle, Due.CERTIFICATE, NOW + DAY, ROTATION, hosts)
    assert covered(renewed.pair.chain) == {*HOSTS, "localhost"}
    assert after(DAY, renewed, hosts) is after(DAY, renewed) is Due.NOTHING


def test_an_authority_is_replaced_in_three_steps() -> None:
    time = 244 * DAY
    old = replace(create(NOW, ROTATION, HOSTS))
    old = advance(old, Due.CERTIFICATE, NOW + 200 * DAY, ROTATION, HOSTS)
    introduced = step(old, Due.INTRODUCE, time)
    assert introduced.following is not None
    assert introduced.pair == old.pair
    assert introduced.trusted == old.authority.certificate + introduced.following.certificate
    assert after(time + ROTATION.overlap - timedelta(seconds=1), introduced) is Due.NOTHING

    switched = step(introduced, Due.SWITCH, time + ROTATION.overlap)
    assert switched.authority == introduced.following
    assert switched.trusted == switched.authority.certificate + old.authority.certificate
    load(switched.pair.chain).verify_directly_issued_by(load(switched.authority.certificate))
    assert after(time + 2 * ROTATION.overlap - timedelta(seconds=1), switched) is Due.NOTHING

    dropped = step(switched, Due.DROP, time + 2 * ROTATION.overlap)
    assert dropped.trusted == switched.authority.certificate
    assert after(time + 2 * ROTATION.overlap, dropped) is Due.NOTHING


def test_a_certificate_is_renewed_during_a_change_of_authorities_too() -> None:
    introduced = advance(create(NOW, ROTATION, HOSTS), Due.INTRODUCE, NOW + 250 * DAY, ROTATION, HOSTS)
    renewed = step(introduced, Due.CERTIFICATE, 250 * DAY)
    assert renewed.following == introduced.following
    load(renewed.pair.chain).verify_directly_issued_by(load(introduced.authority.certificate))


def test_an_expired_authority_is_replaced_in_one_step() -> None:
    bundle = create(NOW, ROTATION, HOSTS)
    anew = step(bundle, Due.EVERYTHING, 365 * DAY)
    assert anew.authority != bundle.authority
    assert after(365 * DAY, anew) is Due.NOTHING
    introduced = advance(bundle, Due.INTRODUCE, NOW + 365 * DAY - timedelta(seconds=1), ROTATION, HOSTS)
    assert after(365 * DAY, introduced) is Due.SWITCH
    assert after(365 * 2 * DAY, introduced) is Due.EVERYTHING, "gangctl was off: the new authority has expired, too"


def test_what_a_clock_that_was_ahead_has_issued_is_replaced() -> None:
    ahead, bundle = NOW + 100 * DAY, create(NOW, ROTATION, HOSTS)
    renewed = advance(bundle, Due.CERTIFICATE, ahead, ROTATION, HOSTS)
    assert after(timedelta(0), step(renewed, Due.CERTIFICATE, timedelta(0))) is Due.NOTHING
    anew = create(ahead, ROTATION, HOSTS)
    assert after(timedelta(0), step(anew, Due.EVERYTHING, timedelta(0))) is Due.NOTHING
    introduced = advance(bundle, Due.INTRODUCE, NOW + 400 * DAY, ROTATION, HOSTS)
    assert after(timedelta(0), introduced) is Due.NOTHING
    assert after(250 * DAY, introduced) is Due.INTRODUCE, "the next authority would not be valid in time"


def test_an_expired_previous_authority_is_dropped_even_if_a_certificate_is_just_renewed() -> None:
    rotation = Rotation(timedelta(days=3), timedelta(hours=32), timedelta(hours=10))
    bundle = advance(create(NOW, rotation, HOSTS), Due.INTRODUCE, NOW + 2 * DAY, rotation, HOSTS)
    bundle = advance(bundle, Due.SWITCH, NOW + 3 * DAY - timedelta(hours=1), rotation, HOSTS)
    bundle = advance(bundle, Due.CERTIFICATE, NOW + 3 * DAY, rotation, HOSTS)
    assert due(bundle, NOW + 3 * DAY, rotation, HOSTS) is Due.DROP


@each(
    "times",
    [(1, 2, 0.1), (9, 1, 0.4), (2, 2, 0.4), (3, 1, 0), (3, 0, 0.1), (-1, -2, 0.1)],
)
def test_inconsistent_rotation_times_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigError):
        Rotation(*(timedelta(days=each) for each in times))


# The promise


@settings(max_examples=20, deadline=None)
@given(st.integers(270, 600), st.lists(st.integers(1, 29), min_size=40, max_size=100))
def test_no_handshake_fails_during_rotations(lifetime: int, looks: list[int]) -> None:
    """Replicas and API servers each see some state of the last ``overlap``: whatever it is, they agree."""
    rotation = Rotation(timedelta(seconds=600), timedelta(seconds=lifetime), timedelta(seconds=60))
    now = NOW
    bundle = create(now, rotation, HOSTS)
    history = [(now, bundle)]
    for seconds in looks:
        now += timedelta(seconds=seconds)
        _agree(history, now, rotation.overlap)
        while (needed := due(bundle, now, rotation, HOSTS)) is not Due.NOTHING:
            assert needed is not Due.EVERYTHING
            bundle = advance(bundle, needed, now, rotation, HOSTS)
            history.append((now, bundle))
        _agree(history, now, rotation.overlap)


def _agree(history: list[tuple[datetime, CertificateBundle]], now: datetime, overlap: timedelta) -> None:
    """Check the handshakes of a client or server that saw the state less than ``overlap`` ago."""
    start = max(0, bisect_right([when for when, _ in history], now - overlap) - 1)
    recent = [bundle for _, bundle in history[start:]]
    for served in recent:
        issuer, end = _served(served.pair.chain)
        assert end > now
        for trusting in recent:
            assert any(name == issuer and until > now for name, until in _trusted(trusting.trusted))


@functools.cache
def _served(chain: bytes) -> tuple[x509.Name, datetime]:
    certificate = load(chain)
    return certificate.issuer, certificate.not_valid_after_utc


@functools.cache
def _trusted(authorities: bytes) -> list[tuple[x509.Name, datetime]]:
    return [(each.subject, each.not_valid_after_utc) for each in x509.load_pem_x509_certificates(authorities)]
