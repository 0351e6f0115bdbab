"""The TLS context of a server whose certificate changes while it serves.

``load_cert_chain`` on a context in use takes effect for every later handshake. But a certificate and a key that do not
match break that context, even after the exception: every later handshake fails. So a pair is tried in a separate
context first.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final

from gangctl.client.credentials import load_pair
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
            self.context.load_verify_locations(cadata=authorities.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError("the client authorities are no PEM certificates") from error
        self.context.verify_mode = ssl.CERT_OPTIONAL


def server_context() -> ssl.SSLContext:
    """Make a context for a server that speaks HTTP/1.1 over TLS 1.2 or newer, without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def client_context(authorities: bytes) -> ssl.SSLContext:
    """Make a context that trusts exactly these PEM certificates; ConfigError when there are none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
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
