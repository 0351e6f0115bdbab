"""Finds the cluster and its credentials: kubeconfig or service account.

Authentication itself (exec plugins, token files, OIDC) is kubernetes-asyncio's work. Its import takes longer than
everything else a command does, so it happens only when a cluster is needed.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import structlog

from gangctl.api.objects import objects_at, text_at
from gangctl.client.credentials import TIMEOUT_SECONDS, Access, Credential, Plugin, TlsCache
from gangctl.client.kubeconfig import SelectedContext, is_server_url, select_context
from gangctl.client.pacing import Clock
from gangctl.client.proxies import proxy_for
from gangctl.errors import ConfigError, one_line

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVICE_ACCOUNT_VARIABLE = "GANGCTL_SERVICE_ACCOUNT_DIR"
"""Names another directory with ``token``, ``ca.crt`` and ``namespace``: a projected volume mounted elsewhere."""

# Of a token or of authorities. Projected tokens are replaced long before they expire; client-go also checks once a
# minute.
_FILE_SECONDS = 60.0
# Ask an exec plugin again shortly before its token expires, and wait this long for it (it may open a browser).
_EXPIRY_MARGIN_SECONDS = 60.0
_EXEC_TIMEOUT_SECONDS = TIMEOUT_SECONDS
_SHORTEST_SECRET = 4
# The name that is reserved for what a cluster says to exec plugins.
_EXTENSION = "client.authentication.k8s.io/exec"
_COPIED = ("tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
# After a failed early renewal the old credentials stay in use, and not every request retries.
_RENEWAL_RETRY_SECONDS = 10.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedCredentials:
    """Credentials as read now, and after how many seconds to read them again (None: when refused)."""

    access: Access
    valid_seconds: float | None = None


class CredentialSource(Protocol):
    """Where credentials are read from, repeatedly."""

    async def load(self) -> LoadedCredentials:
        """Read them; :class:`ConfigError` names the file and the error."""


class ClusterConfig:
    """A cluster, credentials for it that renew themselves, and the namespace to use by default.

    ``origin`` describes the source of all this, ``in_cluster`` is whether it is the service account of this pod. An
    instance serves as the credentials of :class:`~gangctl.client.transport.Transport`.
    """

    def __init__(
        self,
        source: CredentialSource,
        loaded: LoadedCredentials,
        *,
        namespace: str,
        origin: str,
        clock: Clock,
        in_cluster: bool = False,
    ) -> None:
        """Start with what was ``loaded`` from ``source``."""
        self.namespace = namespace
        self.origin = origin
        self.in_cluster = in_cluster
        self._source = source
        self._clock = clock
        self._renewing = asyncio.Lock()
        self._access = loaded.access
        self._renew_at = self._deadline(loaded.valid_seconds)

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return self._access.server

    async def access(self) -> Access:
        """Return the credentials, read again when they are due."""
        if self._due():
            async with self._renewing:
                # Another call may have renewed them during the wait for the lock.
                if self._due():
                    try:
                        await self._load()
                    except ConfigError as error:
                        # The server decides whether the old ones are still valid; a file may be missing for a moment.
                        _log.warning("credentials not renewed", origin=self.origin, error=error.message)
                        self._renew_at = self._deadline(_RENEWAL_RETRY_SECONDS)
        return self._access

    async def refresh(self, refused: Access) -> bool:
        """Read the credentials again, once for many callers; False when that gave the same ones."""
        async with self._renewing:
            # Another caller with the same refused ones may have been first.
            if self._access is refused:
                await self._load()
        return self._access != refused

    async def _load(self) -> None:
        loaded = await self._source.load()
        self._access, self._renew_at = loaded.access, self._deadline(loaded.valid_seconds)

    def _due(self) -> bool:
        return self._renew_at is not None and self._clock.now() >= self._renew_at

    def _deadline(self, seconds: float | None) -> float | None:
        return None if seconds is None else self._clock.now() + seconds


async def load_cluster(
    *,
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account: Path | None = None,
    clock: Clock | None = None,
) -> ClusterConfig:
    """Find the cluster: ``kubeconfig``, else KUBECONFIG, else the service account of this pod, else ~/.kube/config.

    The service account's files are in ``service_account``, else where
    :data:`SERVICE_ACCOUNT_VARIABLE` says, else where Kubernetes mounts them.
    A ``context`` is one of a kubeconfig, so the service account is not considered
    when one is given. Raises :class:`ConfigError` naming file and key.
    """
    environ = os.environ if environ is None else environ
    clock = clock or Clock()
    files = _kubeconfig_files(kubeconfig, environ)
    service_account = service_account or Path(environ.get(SERVICE_ACCOUNT_VARIABLE) or SERVICE_ACCOUNT)
    in_pod = not files and not context and bool(environ.get("KUBERNETES_SERVICE_HOST"))
    if in_pod and _exists(service_account / "token"):
        account = ServiceAccountSource(service_account, environ)
        loaded = await account.load()
        origin = f"service account in {service_account}"
        namespace = account.namespace()
        return ClusterConfig(account, loaded, namespace=namespace, origin=origin, clock=clock, in_cluster=True)
    files = files or [home / ".kube" / "config" if home else _absolute("~/.kube/config")]
    present = [file for file in files if _exists(file)]
    if not present:
        tried = ", ".join(str(file) for file in files)
        raise ConfigError(
            f"no cluster is configured: {tried} does not exist",
            hint="give --kubeconfig FILE, set KUBECONFIG, or run in a pod with a service account",
        )
    source = KubeconfigSource(present, context, clock, environ)
    loaded, selected = await source.load_selected()
    origin = f"context {selected.name} of {selected.file}"
    return ClusterConfig(source, loaded, namespace=selected.namespace, origin=origin, clock=clock)


def _kubeconfig_files(kubeconfig: str | Path | None, environ: Mapping[str, str]) -> list[Path]:
    # As with kubectl, an empty flag is one that is not given: --kubeconfig "$KUBECONFIG", --context "$CONTEXT".
    if kubeconfig:
        return [_absolute(kubeconfig)]
    paths = environ.get("KUBECONFIG", "").split(os.pathsep)
    return [_absolute(path) for path in paths if path]


def _absolute(path: str | Path) -> Path:
    with _looked_up(path):
        return Path(path).expanduser().absolute()


def _exists(path: Path) -> bool:
    """Whether there is such a file. As in client-go, any error but that it does not exist is an error."""
    with _looked_up(path), suppress(FileNotFoundError):
        path.stat()
        return True
    return False


@contextmanager
def _looked_up(path: str | Path) -> Iterator[None]:
    """ConfigError with the reason where the system cannot look up a path, or read what is there."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except RuntimeError as error:  # expanduser() knows no such user, or no home directory of this one
        raise ConfigError(f"{path}: the home directory is not known") from error


class ServiceAccountSource:
    """The service account Kubernetes mounts into a pod."""

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        """Read ``token``, ``ca.crt`` and ``namespace`` in ``directory``, and the server's address in ``environ``."""
        self._directory = directory
        self._environ = dict(environ)
        self._tls = TlsCache()

    async def load(self) -> LoadedCredentials:
        """Read the token and the certificate authority again."""
        from kubernetes_asyncio.client import Configuration  # noqa: PLC0415 -- 0.4 s
        from kubernetes_asyncio.config.config_exception import ConfigException  # noqa: PLC0415
        from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader  # noqa: PLC0415

        configuration = Configuration()
        authority = self._directory / "ca.crt"
        try:
            # Without its own refresh: the files are read again here, and its errors become those of gangctl.
            InClusterConfigLoader(
                str(self._directory / "token"), str(authority), try_refresh_token=False, environ=self._environ
            ).load_and_set(configuration)
            tls = self._tls.context(authority=authority.read_bytes())
        except ConfigException as error:
            raise ConfigError(f"{self._directory}: {error}") from error
        except OSError as error:
            raise ConfigError(f"{self._directory}: {error}") from error
        bearer = _bearer(configuration)
        if not (bearer.isascii() and bearer.isprintable()):
            raise ConfigError(f"{self._directory}: token: has a character that HTTP headers cannot carry")
        headers = (("Authorization", bearer),) if bearer else ()
        return LoadedCredentials(Access(str(configuration.host), headers, tls), _FILE_SECONDS)

    def namespace(self) -> str:
        """Return the pod's namespace."""
        file = self._directory / "namespace"
        with _looked_up(file), suppress(FileNotFoundError):
            return file.read_text().strip()
        return "default"


class KubeconfigSource:
    """One context of kubeconfig files, read again each time so that a changed file or token is noticed."""

    def __init__(self, files: list[Path], context: str | None, clock: Clock, environ: Mapping[str, str]) -> None:
        """Use ``context`` of the merged ``files``, or the current one; ``environ`` may name a proxy."""
        self._files = files
        self._environ = dict(environ)
        self._context = context
        self._clock = clock
        self._tls = TlsCache()

    async def load(self) -> LoadedCredentials:
        """Read files and run plugins again."""
        return (await self.load_selected())[0]

    async def load_selected(self) -> tuple[LoadedCredentials, SelectedContext]:
        """Read files and run plugins; also say what was selected."""
        selected = select_context(self._files, self._context)
        proxy = _text(selected, selected.cluster, "proxy-url") or None
        if proxy is not None and not is_server_url(proxy):
            raise selected.fail("cluster.proxy-url", "only http and https proxies are supported")
        proxy = proxy or proxy_for(selected.server, self._environ)
        secure = urlsplit(selected.server).scheme == "https"
        # As in client-go, which sends without TLS the impersonated user alone (IsConfigTransportTLS).
        credentials = await _authenticate(selected) if secure else Credential()
        headers = (*_authorization(credentials), *_impersonation(selected))
        for _, value in headers:
            if not (value.isascii() and value.isprintable()):
                raise selected.fail("user", "a token or name has a character that HTTP headers cannot carry")
        name = _text(selected, selected.cluster, "tls-server-name") or None
        tls = self._tls_of(selected, credentials) if secure else None
        access = Access(selected.server, headers, tls, name, proxy)
        return LoadedCredentials(access, self._valid_seconds(selected, credentials)), selected

    def _tls_of(self, selected: SelectedContext, found: Credential) -> ssl.SSLContext:
        unverified = selected.cluster.get("insecure-skip-tls-verify") or False
        if not isinstance(unverified, bool):
            # The text "false" would count as true.
            raise selected.fail("cluster.insecure-skip-tls-verify", "expected true or false")
        try:
            return self._tls.context(
                authority=selected.material(selected.cluster, "certificate-authority"),
                certificate=found.certificate,
                key=found.key,
                verify=not unverified,
            )
        except ConfigError as error:
            raise selected.fail("certificates", error.message) from error

    def _valid_seconds(self, selected: SelectedContext, found: Credential) -> float | None:
        if found.expires is not None:
            lifetime = (found.expires - self._clock.wall()).total_seconds()
            # Also where the clock is wrong, or the token short-lived, the plugin does not run for each request.
            return max(_RENEWAL_RETRY_SECONDS, lifetime - min(_EXPIRY_MARGIN_SECONDS, lifetime / 5))
        # As for client-go, a file of authorities may change, too; no plugin is run for that.
        asked = selected.user.get("exec") or selected.user.get("auth-provider")
        authorities = selected.cluster.get("certificate-authority") and not asked
        return _FILE_SECONDS if selected.user.get("tokenFile") or authorities else None


async def _authenticate(selected: SelectedContext) -> Credential:
    """Find the credentials: those of the user, else what its auth provider or exec plugin returns."""
    user, credential = selected.user, _written(selected)
    # As in client-go, which runs no plugin for a user that has other credentials (``UpdateTransportConfig``).
    if credential.token or credential.basic:
        return credential
    if user.get("auth-provider"):
        return replace(credential, token=await _ask_provider(selected))
    if (section := user.get("exec")) is None or credential.certificate is not None:
        return credential
    try:
        return await Plugin.read(section).run(_cluster_info(selected), _EXEC_TIMEOUT_SECONDS)
    except ConfigError as error:
        raise selected.fail("user", error.message, hint=error.hint) from error


def _written(selected: SelectedContext) -> Credential:
    """The credentials that the kubeconfig holds or has the files of: certificate, token file, token or password."""
    user = selected.user
    certificate, key = (selected.material(user, f"client-{part}") for part in ("certificate", "key"))
    if (certificate is None) != (key is None):
        raise selected.fail("user", "client-certificate and client-key go together, one is missing")
    content = selected.file_content(user, "tokenFile")
    # The file first: in client-go, too, it has precedence. Files end in a newline, headers must not hold one.
    token = (_text(selected, user, "token") if content is None else content.decode("utf-8", "replace")).strip()
    name, password = (_text(selected, user, key) for key in ("username", "password"))
    basic = ""
    if name and password and not token:
        basic = base64.b64encode(f"{name}:{password}".encode("utf-8", "replace")).decode()
    return Credential(token, certificate, key, basic=basic)


def _cluster_info(selected: SelectedContext) -> dict[str, Any]:
    """The cluster as exec plugins are given it (``ConfigToExecCluster`` of client-go)."""
    cluster = selected.cluster
    authority = selected.material(cluster, "certificate-authority")
    settings = {text_at(entry, "name"): entry.get("extension") for entry in objects_at(cluster, "extensions")}
    info = {
        **{key: cluster.get(key) for key in _COPIED},
        "certificate-authority-data": base64.b64encode(authority or b"").decode(),
        "config": settings.get(_EXTENSION),
    }
    return {"server": selected.server, **{key: value for key, value in info.items() if value}}


async def _ask_provider(selected: SelectedContext) -> str:
    """The token of an auth provider (OIDC, GCP), which kubernetes-asyncio asks."""
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415 -- 0.4 s
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader  # noqa: PLC0415

    document = {
        "current-context": "selected",
        "contexts": [{"name": "selected", "context": {"cluster": "selected", "user": "selected"}}],
        "clusters": [{"name": "selected", "cluster": {"server": selected.server}}],
        "users": [{"name": "selected", "user": {"auth-provider": selected.user["auth-provider"]}}],
    }
    configuration = Configuration()
    try:
        async with asyncio.timeout(_EXEC_TIMEOUT_SECONDS):
            await KubeConfigLoader(document, config_base_path="").load_and_set(configuration)
    except TimeoutError as error:
        raise selected.fail("user", f"no credentials within {_EXEC_TIMEOUT_SECONDS:.0f} s") from error
    except Exception as error:  # noqa: BLE001 -- the library raises many types: its own errors, KeyError, aiohttp's
        provider = selected.user["auth-provider"]
        secrets = provider.get("config") if isinstance(provider, dict) else provider
        text = _without(f"{type(error).__name__}: {error}", secrets)
        # Without its cause, whose text may hold the provider's secrets.
        raise selected.fail("user", f"no credentials: {one_line(text, 300)}") from None
    return _bearer(configuration).removeprefix("Bearer ")


def _without(text: str, secrets: object) -> str:
    """Text without any of the texts in a section, except its keys."""
    if isinstance(secrets, dict):
        secrets = list(secrets.values())
    if isinstance(secrets, list):
        for secret in secrets:
            text = _without(text, secret)
    elif secrets is not None and len(str(secrets)) >= _SHORTEST_SECRET:
        text = text.replace(str(secrets), "***")
    return text


def _text(selected: SelectedContext, section: Mapping[str, Any], key: str) -> str:
    """The text under ``key``, empty without one."""
    value = section.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    raise selected.fail(key, "expected text")


def _bearer(configuration: Any) -> str:
    # Files end in a newline, headers must not hold one.
    return str(configuration.api_key.get("BearerToken") or "").strip()


def _authorization(found: Credential) -> tuple[tuple[str, str], ...]:
    if found.basic:
        return (("Authorization", f"Basic {found.basic}"),)
    return (("Authorization", f"Bearer {found.token}"),) if found.token else ()


def _impersonation(selected: SelectedContext) -> tuple[tuple[str, str], ...]:
    """Return the headers for ``as`` and its companions: acting with more rights than requested would be worse."""
    user = selected.user
    headers = [
        (f"Impersonate-{header}", text)
        for header, key in (("User", "as"), ("Uid", "as-uid"))
        if (text := _text(selected, user, key))
    ]
    headers += [("Impersonate-Group", group) for group in _texts(selected, user.get("as-groups"), "as-groups")]
    extra = user.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise selected.fail("as-user-extra", "expected a mapping of lists")
    for key, values in extra.items():
        # The API server decodes it: a header's name cannot have all characters of a key.
        name = f"Impersonate-Extra-{quote(str(key), safe='')}"
        headers += [(name, value) for value in _texts(selected, values, "as-user-extra")]
    return tuple(headers)


def _texts(selected: SelectedContext, values: object, key: str) -> list[str]:
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise selected.fail(key, "expected a list of texts")
    return values
