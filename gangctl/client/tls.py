"""TLS contexts from PEM bytes, without leaving a private key in a file."""

from __future__ import annotations

import hashlib
import ssl
import tempfile
from pathlib import Path

from gangctl.errors import ConfigError


class TlsCache:
    """The TLS context of some certificates, made anew only when they change: a new context means new connections."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._digest = b""
        self._context: ssl.SSLContext | None = None

    def context(
        self,
        *,
        authority: bytes | None = None,
        certificate: bytes | None = None,
        key: bytes | None = None,
        verify: bool = True,
    ) -> ssl.SSLContext:
        """Return a context for PEM ``certificate`` and ``key`` that trusts ``authority``, or the system without one."""
        digest = hashlib.sha256(repr((authority, certificate, key, verify)).encode()).digest()
        if self._context is None or digest != self._digest:
            self._context = _make_tls(authority, certificate, key, verify=verify)
            self._digest = digest
        return self._context


def _make_tls(authority: bytes | None, certificate: bytes | None, key: bytes | None, *, verify: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    except (ssl.SSLError, ValueError):
        raise ConfigError("certificate-authority: not PEM certificates") from None
    # Cluster authorities often lack the key identifiers strict mode asks for; Go clients do not ask.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None and key is not None:
        _load_pair(context, certificate, key)
    return context


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # OpenSSL reads the pair from files only; these live for two calls, readable by us alone.
    with tempfile.TemporaryDirectory(prefix="gangctl-") as directory:
        certificate_file, key_file = Path(directory, "tls.crt"), Path(directory, "tls.key")
        certificate_file.write_bytes(certificate)
        key_file.write_bytes(key)
        try:
            # The empty password keeps OpenSSL from asking the terminal about an encrypted key.
            context.load_cert_chain(certificate_file, key_file, password=lambda: b"")
        except (ssl.SSLError, ValueError, OSError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise ConfigError(f"client-certificate and client-key: unusable: {reason}") from None
