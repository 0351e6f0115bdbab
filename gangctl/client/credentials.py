"""Credentials of a server: its URL, headers and certificates that authenticate the client, and exec plugins.

No private key is left in a file.

Exec plugins of kubeconfig files (``client.authentication.k8s.io``) are foreign code: one may print anything, endlessly,
or never end. Its output is a secret and goes into no message; its stderr, which is for the user, goes to the terminal,
as with kubectl, or nowhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import orjson

from gangctl.errors import ConfigError, one_line

OUTPUT_BYTES: Final = 2**20
TIMEOUT_SECONDS: Final = 120.0
"""The plugin may open a browser."""


@dataclass(frozen=True, slots=True)
class Credential:
    """An identity: a token, a certificate with its key (PEM), or both, and when to ask again.

    ``basic`` is the base64 of name and password, which no plugin prints.
    """

    token: str = field(default="", repr=False)
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    expires: datetime | None = None
    basic: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Plugin:
    """``user.exec`` of a kubeconfig."""

    command: str
    api_version: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    install_hint: str = ""
    wants_cluster: bool = False
    """``provideClusterInfo``"""
    interactive_mode: str = "IfAvailable"

    @classmethod
    def read(cls, section: object) -> Plugin:
        """Read the section; ConfigError names the key that is missing or wrong."""
        if not isinstance(section, dict):
            raise ConfigError("exec: expected a mapping")
        for key in ("command", "apiVersion"):
            if not isinstance(section.get(key), str) or not section[key]:
                raise ConfigError(f"exec: missing key '{key}'")
        arguments = section.get("args") or []
        if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
            raise ConfigError("exec.args: expected a list of texts")
        hint = section.get("installHint")
        mode = section.get("interactiveMode") or "IfAvailable"
        if mode not in ("Never", "IfAvailable", "Always"):
            raise ConfigError("exec.interactiveMode: expected Never, IfAvailable or Always")
        return cls(
            section["command"],
            section["apiVersion"],
            tuple(arguments),
            _environment(section.get("env") or []),
            one_line(hint) if isinstance(hint, str) else "",
            section.get("provideClusterInfo") is True,
            mode,
        )

    async def run(self, cluster: Mapping[str, Any], timeout_seconds: float = TIMEOUT_SECONDS) -> Credential:
        """Run it; ConfigError describes the failure without any of the output.

        ``cluster`` is ``spec.cluster`` of an ExecCredential, for a plugin that wants it.
        """
        interactive = self.interactive_mode != "Never" and _is_terminal("stdin")
        if self.interactive_mode == "Always" and not interactive:
            raise ConfigError("exec.interactiveMode Always: standard input is not a terminal")
        asked = {"interactive": interactive, **({"cluster": cluster} if self.wants_cluster else {})}
        try:
            code, output = await self._output(asked, timeout_seconds)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ConfigError(f"exec: {self.command}: not found", hint=self.install_hint) from error
        except (OSError, ValueError) as error:
            raise ConfigError(f"exec: {self.command}: cannot be run: {type(error).__name__}") from error
        if code:
            raise ConfigError(f"exec: {self.command}: process returned {code}", hint=f"run {self.command} to see why")
        try:
            return self._credentials(output)
        except ValueError as problem:
            raise ConfigError(f"exec: {self.command}: {problem}") from None

    async def _output(self, asked: Mapping[str, Any], seconds: float) -> tuple[int, bytes]:
        """Exit code and standard output. The pipe is ours: a process that inherited its other end is not awaited."""
        receiving, sending = os.pipe()
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(receiving, "rb", buffering=0)
        )
        try:
            try:
                process = await self._start(asked, sending)
            finally:
                # The pipe has no end while this process has it open for writing.
                os.close(sending)
            try:
                async with asyncio.timeout(seconds):
                    output = await _read(reader)
                    return await process.wait(), output
            except TimeoutError as error:
                raise ConfigError(f"exec: {self.command}: no credentials within {seconds:g} s") from error
            finally:
                # Whatever ended the wait: no plugin is left running.
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        finally:
            transport.close()

    async def _start(self, asked: Mapping[str, Any], stdout: int) -> asyncio.subprocess.Process:
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": asked}
        return await asyncio.create_subprocess_exec(
            self.command,
            *self.arguments,
            env={**os.environ, **self.environment, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=None if asked["interactive"] else asyncio.subprocess.DEVNULL,
            stdout=stdout,
            # As with kubectl, what a plugin prints for people goes to their terminal, and to no log.
            stderr=None if _is_terminal("stderr") else asyncio.subprocess.DEVNULL,
        )

    def _credentials(self, output: bytes) -> Credential:
        """Read an ExecCredential; ValueError names the field that is missing or wrong."""
        try:
            printed = orjson.loads(output)
        except orjson.JSONDecodeError:
            raise ValueError("what it printed is not JSON") from None
        status = printed.get("status") if isinstance(printed, dict) else None
        if not isinstance(status, dict) or printed.get("kind") != "ExecCredential":
            raise ValueError("what it printed is no ExecCredential with a status")
        if printed.get("apiVersion") != self.api_version:
            raise ValueError(f"its apiVersion is not {self.api_version}")
        texts = {key: status.get(key) or "" for key in ("token", "clientCertificateData", "clientKeyData")}
        wrong = next((key for key, text in texts.items() if not isinstance(text, str)), None)
        if wrong is not None:
            raise ValueError(f"status.{wrong} is not text")
        token, certificate, key = texts.values()
        if bool(certificate) != bool(key) or not (token or certificate):
            raise ValueError("status needs a token, or clientCertificateData with clientKeyData")
        return Credential(
            token,
            certificate.encode("utf-8", "replace") or None,
            key.encode("utf-8", "replace") or None,
            _moment(status.get("expirationTimestamp")),
        )


def _environment(entries: object) -> dict[str, str]:
    environment = {}
    for entry in entries if isinstance(entries, list) else [None]:
        name, value = (entry.get("name"), entry.get("value")) if isinstance(entry, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigError("exec.env: expected a list of name and value")
        environment[name] = value
    return environment


def _moment(text: object) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text if isinstance(text, str) else "")
    except ValueError:
        raise ValueError("status.expirationTimestamp is not a time") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _is_terminal(stream: str) -> bool:
    """Whether ``stdin`` or ``stderr`` of this process is a terminal."""
    opened = getattr(sys, stream)
    return opened is not None and not opened.closed and opened.isatty()


async def _read(stdout: asyncio.StreamReader) -> bytes:
    output = b""
    while chunk := await stdout.read(2**16):
        output += chunk
        if len(output) > OUTPUT_BYTES:
            raise ConfigError(f"exec: it printed more than {OUTPUT_BYTES} bytes")
    return output


@dataclass(frozen=True, slots=True)
class Access:
    """One set of credentials for one server; never printed.

    ``server`` is a base URL without a trailing slash. ``headers`` carry the bearer
    token and impersonation. ``tls_server_name`` is the name in the server's
    certificate where it differs from the URL's host.
    """

    server: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    tls_server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)


class Credentials(Protocol):
    """Where a transport gets its :class:`Access`, and a newer one after a 401."""

    async def access(self) -> Access:
        """Return the credentials to use now."""

    async def refresh(self, refused: Access) -> bool:
        """Replace credentials the server ``refused``; False when there is nothing else to try."""


class TlsCache:
    """The TLS context of some certificates, made again only when they change: a new context means new connections."""

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
        context = ssl.create_default_context(cadata=pem_text(authority) if authority else None)
    except (ssl.SSLError, ValueError):
        raise ConfigError("certificate-authority: not PEM certificates") from None
    # Cluster authorities often lack the key identifiers that strict mode requires; Go clients do not require them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None and key is not None:
        try:
            load_pair(context, certificate, key)
        except ValueError as error:
            raise ConfigError(f"client-certificate and client-key: unusable: {error}") from None
    return context


def pem_text(certificates: bytes) -> str:
    """PEM certificates as :mod:`ssl` takes them: in ASCII, though comments between them may be in any language."""
    # Nothing is left out: without any text, the authorities of the system would be trusted.
    return certificates.decode("ascii", "backslashreplace")


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load the first of these PEM certificates; ValueError explains why a pair cannot be used."""
    with _private_file(certificate.rstrip() + b"\n" + key) as path:
        try:
            # The empty password keeps OpenSSL from asking the terminal about an encrypted key.
            context.load_cert_chain(path, password=b"")
        except (ssl.SSLError, ValueError) as error:
            raise ValueError(getattr(error, "reason", None) or "not PEM, or the key is encrypted") from error


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """A path under which OpenSSL, which reads keys from files only, finds ``content`` for a moment.

    Memory, where the system has it: the key never reaches a disk, and a read-only
    root file system is enough.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("gangctl-tls")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="gangctl-") as file:
        file.write(content)
        file.flush()
        yield file.name
