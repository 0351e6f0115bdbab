from __future__ import annotations

import asyncio
import base64
import datetime as dt
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gangctl.client.client import Client
from gangctl.client.config import SERVICE_ACCOUNT_VARIABLE, ClusterConfig
from gangctl.client.resources import PODS
from gangctl.client.transport import Transport
from gangctl.errors import ConfigError, UnavailableError
from gangctl.runtime.tls import ServerTls
from tests.client.clock import VirtualClock
from tests.client.kubeconfigs import SECRET, headers_of, load, plugin, write
from tests.client.server import ScriptedServer, obj, status
from tests.rows import each
from tests.runtime.authority import bundle, pair


class TestFinding:
    async def test_the_kubeconfig_flag_has_precedence(self, tmp_path: Path) -> None:
        flag = write(tmp_path / "flag", server="http://flag:1/")
        write(tmp_path / "env", server="http://env:1")
        config = await load(flag, environ={"KUBECONFIG": str(tmp_path / "env")})
        assert config.server == "http://flag:1"
        assert config.namespace == "default"
        assert config.origin == f"context c of {flag}"

    async def test_empty_flags_count_as_not_given(self, tmp_path: Path) -> None:
        """As with kubectl: ``--kubeconfig "$KUBECONFIG"`` where that is not set."""
        write(tmp_path / ".kube" / "config", server="http://home:1")
        assert (await load("", context="", home=tmp_path)).server == "http://home:1"

    async def test_kubeconfig_in_the_environment_may_have_several_files(self, tmp_path: Path) -> None:
        first = write(tmp_path / "1", server="http://one:1", document={"current-context": ""})
        second = write(tmp_path / "2", server="http://two:1", document={"current-context": "d"})
        content = yaml.safe_load(second.read_text())
        content["contexts"].append({"name": "d", "context": {"cluster": "k", "user": "u", "namespace": "team"}})
        second.write_text(yaml.safe_dump(content))
        environ = {"KUBECONFIG": f"{first}{os.pathsep}{tmp_path / 'absent'}{os.pathsep}{second}"}
        config = await load(environ=environ)
        assert (config.server, config.namespace) == ("http://one:1", "team")
        assert config.origin == f"context d of {second}"
        assert (await load(environ=environ, context="c")).namespace == "default"

    async def test_the_service_account_is_used_before_the_home_directory(self, tmp_path: Path) -> None:
        account = tmp_path / "sa"
        authority = make_authority()
        account.mkdir()
        (account / "token").write_text(f"{SECRET}\n")
        (account / "ca.crt").write_bytes(authority.pem)
        (account / "namespace").write_text("gangctl-system\n")
        write(tmp_path / ".kube" / "config", server="http://home:1")
        environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
        inside = await load(environ=environ, service_account=account, home=tmp_path)
        assert inside.server == "https://[fd00::1]:443"
        assert (inside.namespace, inside.in_cluster) == ("gangctl-system", True)
        assert await headers_of(inside) == [("Authorization", f"Bearer {SECRET}")]
        named = await load(environ=environ, service_account=account, home=tmp_path, context="c")
        assert (named.server, named.in_cluster) == ("http://home:1", False)
        outside = await load(environ={}, service_account=account, home=tmp_path)
        assert outside.server == "http://home:1"

    async def test_a_service_account_without_a_ca_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text(SECRET)
        environ = {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}
        with pytest.raises(ConfigError, match="certification file") as caught:
            await load(environ=environ, service_account=tmp_path)
        assert str(tmp_path) in caught.value.message

    async def test_no_configuration_is_an_error_with_a_hint(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"no cluster is configured: .*/\.kube/config") as caught:
            await load(home=tmp_path)
        assert "--kubeconfig" in caught.value.hint


class TestMistakes:
    @each(
        ("parts", "message"),
        [
            ({"document": {"current-context": None}}, "current-context: not set"),
            ({"document": {"current-context": "x"}}, "contexts: no context named 'x'"),
            ({"context": {"cluster": "x"}}, "cluster: no cluster named 'x'"),
            ({"context": {"cluster": None}}, "cluster: required"),
            ({"context": {"user": "x"}}, "user: no user named 'x'"),
            ({"document": {"clusters": {}}}, "cluster: no cluster named 'k'"),
            ({"document": {"clusters": "k"}}, "clusters: expected a list"),
            ({"document": {"users": [{"user": {"token": SECRET}}]}}, r"users\[0\].name: required"),
            ({"document": {"users": [{"name": "u", "user": SECRET}]}}, r"users\[0\].user: expected a mapping"),
            ({"cluster": {"server": None}}, "cluster.server: required"),
            ({"cluster": {"server": "example.com"}}, "cluster.server: not an http or https URL"),
            ({"cluster": {"server": f"https://me:{SECRET}@host"}}, "cluster.server: not an http or https URL"),
            ({"cluster": {"server": "https://host:x"}}, "cluster.server: not an http or https URL"),
            ({"cluster": {"proxy-url": "socks5://p"}}, "cluster.proxy-url: only http and https"),
            ({"cluster": {"certificate-authority-data": "%"}}, "certificate-authority-data: not base64"),
            ({"cluster": {"certificate-authority-data": "aG k="}}, "certificate-authority-data: not base64"),
            ({"cluster": {"server": "https://h", "certificate-authority-data": "aGk="}}, "not PEM certificates"),
            ({"cluster": {"server": "https://h", "certificate-authority": "no.crt"}}, "no.crt: No such file"),
            ({"server": "https://h", "user": {"client-key-data": "aGk="}}, "go together"),
            (
                {"server": "https://h", "user": {"client-key-data": "aGk=", "client-certificate-data": "aGk="}},
                "client-certificate and client-key: unusable",
            ),
            ({"user": {"tokenFile": "absent"}}, "absent: No such file"),
            ({"user": {"exec": {"command": "gangctl-no-such-plugin", "apiVersion": "v1"}}}, "plugin: not found"),
            ({"user": {"exec": {"apiVersion": "v1"}}}, "missing key 'command'"),
            ({"user": {"auth-provider": {"name": "oidc"}}}, "oidc: missing configuration"),
        ],
    )
    async def test_an_error_names_file_and_key_and_no_secret(
        self, tmp_path: Path, parts: dict[str, Any], message: str
    ) -> None:
        file = write(tmp_path / "config", **parts)
        with pytest.raises(ConfigError, match=message) as caught:
            await load(file)
        assert str(file) in caught.value.message
        assert SECRET not in f"{caught.value.message} {caught.value.hint}"

    async def test_yaml_is_reported_by_line_without_its_content(self, tmp_path: Path) -> None:
        file = tmp_path / "config"
        file.write_text(f"users:\n- name: u\n  user:\n    token: {SECRET}: [\n")
        with pytest.raises(ConfigError, match=r"config:4:\d+: not YAML") as caught:
            await load(file)
        assert SECRET not in caught.value.message
        assert caught.value.__cause__ is None

    @each("content", [b"\xff\xfe\x00", b"- a\n", b"\x00"])
    async def test_a_file_that_is_no_kubeconfig_is_refused(self, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "config"
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"not YAML|not a kubeconfig"):
            await load(file)

    async def test_an_unreadable_file_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="Is a directory"):
            await load(tmp_path)

    @each(
        ("arguments", "message"),
        [
            ({"path": "n" * 300}, "/n{300}: File name too long"),
            ({"environ": {"KUBECONFIG": "n" * 300}}, "/n{300}: File name too long"),
            ({"path": "config/config"}, "/config/config: Not a directory"),
            ({"path": "~gangctl-no-such-user/config"}, "^~gangctl-no-such-user/config: the home directory"),
            ({"home": None}, "^~/.kube/config: the home directory"),
            (
                {"environ": {"KUBERNETES_SERVICE_HOST": "h", SERVICE_ACCOUNT_VARIABLE: "n" * 300}},
                "n{300}/token: File name too long",
            ),
        ],
    )
    async def test_a_path_that_cannot_be_looked_up_is_an_error_with_the_reason(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], message: str
    ) -> None:
        def unknown(user: object) -> None:
            raise KeyError(user)

        monkeypatch.chdir(tmp_path)
        (tmp_path / "config").touch()
        # As in a pod whose user is in no /etc/passwd.
        monkeypatch.delenv("HOME", raising=False)
        monkeypatch.setattr("pwd.getpwuid", unknown)
        with pytest.raises(ConfigError, match=message):
            await load(**arguments)

    async def test_an_unknown_context_is_an_error_that_lists_the_known_ones(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            await load(write(tmp_path / "config"), context="zz")
        assert caught.value.hint == "contexts in these files: c"


class TestUsers:
    async def test_users_with_token_password_or_no_credentials(self, tmp_path: Path) -> None:
        token = await load(write(tmp_path / "1"))
        assert await headers_of(token) == [("Authorization", f"Bearer {SECRET}")]
        password = await load(write(tmp_path / "2", user={"username": "me", "password": "pw"}))
        assert await headers_of(password) == [("Authorization", "Basic " + base64.b64encode(b"me:pw").decode())]
        nobody = await load(write(tmp_path / "3", context={"user": None}, server="https://h"))
        assert await headers_of(nobody) == []

    async def test_over_plain_http_no_credentials_are_sent_and_no_plugin_runs(self, tmp_path: Path) -> None:
        """As by kubectl (``IsConfigTransportTLS``), which sends the impersonated user alone."""
        for user in (
            {"token": SECRET},
            {"tokenFile": "absent"},
            {"username": "me", "password": "pw"},
            {"client-certificate-data": "aGk="},
            {"auth-provider": {"name": "oidc"}},
            plugin(tmp_path, '{"token":"tok@N@"}'),
        ):
            config = await load(write(tmp_path / "plain", server="http://127.0.0.1:1", user={"as": "alice", **user}))
            assert await headers_of(config) == [("Impersonate-User", "alice")]
            assert (await config.access()).tls is None
        assert not (tmp_path / "runs").exists()
        config = await load(write(tmp_path / "config", server="HTTPS://127.0.0.1:1"))
        assert await headers_of(config) == [("Authorization", f"Bearer {SECRET}")]
        assert (await config.access()).tls is not None

    async def test_impersonation_is_honoured(self, tmp_path: Path) -> None:
        user = {"as": "alice", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"Some/key": ["v"]}}
        config = await load(write(tmp_path / "1", user=user))
        assert await headers_of(config) == [
            ("Impersonate-User", "alice"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
            ("Impersonate-Extra-Some%2Fkey", "v"),
        ]

    async def test_a_token_file_is_relative_to_the_kubeconfig_and_read_every_minute(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        (tmp_path / "token").write_text("one\n")
        user = {"tokenFile": "token", "token": "ignored"}
        config = await load(write(tmp_path / "config", user=user), clock=clock)
        (tmp_path / "token").write_text("two\n")
        assert await headers_of(config) == [("Authorization", "Bearer one")]
        clock.tick(61)
        assert await headers_of(config) == [("Authorization", "Bearer two")]

    async def test_a_file_of_authorities_is_read_every_minute(self, tmp_path: Path) -> None:
        """As by client-go (``ClientsAllowCARotation``): otherwise a process would not trust a rotated authority."""
        clock, file = VirtualClock(), tmp_path / "ca.crt"
        file.write_bytes(make_authority().pem)
        cluster = {"certificate-authority": "ca.crt"}
        config = await load(write(tmp_path / "config", server="https://h:1", cluster=cluster), clock=clock)
        before = (await config.access()).tls
        file.write_bytes(make_authority().pem)
        assert (await config.access()).tls is before
        clock.tick(61)
        assert (await config.access()).tls is not before

    async def test_a_file_missing_for_a_moment_keeps_the_old_token(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        (tmp_path / "token").write_text("one")
        config = await load(write(tmp_path / "config", user={"tokenFile": "token"}), clock=clock)
        (tmp_path / "token").unlink()
        clock.tick(61)
        assert await headers_of(config) == [("Authorization", "Bearer one")]
        (tmp_path / "token").write_text("two")
        assert await headers_of(config) == [("Authorization", "Bearer one")]
        clock.tick(11)
        assert await headers_of(config) == [("Authorization", "Bearer two")]

    async def test_a_refused_token_is_read_again_at_once_and_once(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("one")
        cluster = {"certificate-authority-data": encode(bundle("ca"))}

        async def guarded(request: web.Request) -> web.StreamResponse:
            good = request.headers["Authorization"] == "Bearer two"
            return await (obj({}) if good else status(401, "Unauthorized"))(request)

        async with ScriptedServer(tls=ServerTls(pair("ca")).context) as server:
            server.on("GET", "/api/v1/namespaces/ns/pods/p", guarded)
            file = write(tmp_path / "config", server=server.url, user={"tokenFile": "token"}, cluster=cluster)
            config = await load(file)
            (tmp_path / "token").write_text("two")
            async with Transport(config) as transport:
                client = Client(transport)
                await asyncio.gather(*(client.get(PODS, "p", "ns") for _ in range(5)))
        assert not await config.refresh(await config.access())


class Authority:
    """A certificate authority for one test."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign("authority", self.key, ca=True)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key, ca=False)
        encoding = serialization.Encoding.PEM
        private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return certificate.public_bytes(encoding), private

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        )
        return builder.sign(self.key, hashes.SHA256())


def make_authority() -> Authority:
    return Authority()


def encode(value: bytes) -> str:
    return base64.b64encode(value).decode()


@each(
    ("server", "environ", "proxy"),
    [
        ("https://api.example", {"HTTPS_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ("https://api.example", {"https_proxy": "proxy:3128"}, "http://proxy:3128"),
        ("https://api.example", {"HTTP_PROXY": "http://proxy:3128"}, None),
        ("http://api.example", {"HTTP_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ("https://api.example", {"HTTPS_PROXY": "socks5://proxy:1080"}, None),
        ("https://api.example", {}, None),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://proxy:3128"}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://proxy:3128"}, None),
        *(
            (
                server,
                {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": excluded},
                None if direct else "http://proxy:3128",
            )
            for server, excluded, direct in (
                ("https://api.example", "*", True),
                ("https://api.example", "other, Example", True),
                ("https://api.example", ".example", True),
                ("https://api.example", "*.example", True),
                ("https://api.example", ".api.example", False),
                ("https://api.example", "ample", False),
                ("https://api.example:6443", "api.example:6443", True),
                ("https://api.example:6443", "api.example:443", False),
                ("https://10.1.2.3:6443", "10.1.0.0/16", True),
                ("https://10.1.2.3:6443", "10.1.2.4,10.2.0.0/16,nonsense/x", False),
                ("https://10.1.2.3:6443", "10.1.2.3", True),
                ("https://[fd00::1]:6443", "fd00::1", True),
                ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
                ("https://[fd00::1]:6443", "10.0.0.0/8", False),
            )
        ),
    ],
)
async def test_the_proxy_of_the_environment_is_used_as_by_kubectl(
    server: str, environ: dict[str, str], proxy: str | None, tmp_path: Path
) -> None:
    config = await load(write(tmp_path / "config", server=server), environ=environ)
    assert (await config.access()).proxy == proxy
    own = {"proxy-url": "http://own:1"}
    config = await load(write(tmp_path / "config", server=server, cluster=own), environ=environ)
    assert (await config.access()).proxy == "http://own:1"


@pytest.fixture
async def tls_server(tmp_path: Path) -> AsyncIterator[tuple[str, Authority]]:
    """An HTTPS server named api.example that returns the name in the certificate of a client."""
    authority = make_authority()
    certificate, key = authority.issue("api.example")
    for name, content in (("s.crt", certificate), ("s.key", key), ("ca.crt", authority.pem)):
        (tmp_path / name).write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "s.crt", tmp_path / "s.key")
    context.load_verify_locations(tmp_path / "ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL

    async def whoami(request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        name = dict(pair[0] for pair in peer["subject"])["commonName"] if peer else "nobody"
        return web.json_response({"name": name})

    app = web.Application()
    app.router.add_get("/{path:.*}", whoami)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}", authority
    await runner.cleanup()


class TestTls:
    async def name_seen(self, config: ClusterConfig) -> str:
        async with Transport(config) as transport:
            return str((await Client(transport).get(PODS, "p", "ns"))["name"])

    async def test_certificates_as_data_leave_no_file_behind(
        self, tls_server: tuple[str, Authority], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(scratch))
        url, authority = tls_server
        certificate, key = authority.issue("alice")
        # In lines, as base64 writes it, and with the line ends of Windows: kubectl reads both.
        in_lines, of_windows = (base64.encodebytes(content).decode() for content in (authority.pem, key))
        of_windows = of_windows.replace("\n", "\r\n")
        user = {"client-certificate-data": encode(certificate), "client-key-data": of_windows}
        cluster = {"certificate-authority-data": in_lines, "tls-server-name": "api.example"}
        config = await load(write(tmp_path / "config", server=url, user=user, cluster=cluster))
        assert await self.name_seen(config) == "alice"
        assert list(scratch.iterdir()) == []

    async def test_comments_beside_certificates_may_be_in_any_language(
        self, tls_server: tuple[str, Authority], tmp_path: Path
    ) -> None:
        """As in the bundle of Fedora and RHEL, which has the name of each authority."""
        url, authority = tls_server
        authorities = "# Főtanúsítvány\n".encode() + authority.pem
        cluster = {"certificate-authority-data": encode(authorities), "tls-server-name": "api.example"}
        config = await load(write(tmp_path / "config", server=url, cluster=cluster))
        assert await self.name_seen(config) == "nobody"

    async def test_certificates_in_files_are_relative_to_the_kubeconfig(
        self, tls_server: tuple[str, Authority], tmp_path: Path
    ) -> None:
        url, authority = tls_server
        certificate, key = authority.issue("bob")
        (tmp_path / "bob.crt").write_bytes(certificate)
        (tmp_path / "bob.key").write_bytes(key)
        user = {"client-certificate": "bob.crt", "client-key": "bob.key"}
        cluster = {"certificate-authority": "ca.crt", "tls-server-name": "api.example"}
        config = await load(write(tmp_path / "config", server=url, user=user, cluster=cluster))
        assert await self.name_seen(config) == "bob"
        before = (await config.access()).tls
        assert not await config.refresh(await config.access())
        assert (await config.access()).tls is before
        certificate, key = authority.issue("carol")
        (tmp_path / "bob.crt").write_bytes(certificate)
        (tmp_path / "bob.key").write_bytes(key)
        assert await config.refresh(await config.access())
        assert await self.name_seen(config) == "carol"

    async def test_an_exec_plugin_can_return_a_certificate(
        self, tls_server: tuple[str, Authority], tmp_path: Path
    ) -> None:
        url, authority = tls_server
        certificate, key = (pem.decode().replace("\n", "\\n") for pem in authority.issue("dave"))
        status = f'{{"clientCertificateData":"{certificate}","clientKeyData":"{key}"}}'
        user = plugin(tmp_path, status)
        cluster = {"certificate-authority": "ca.crt", "tls-server-name": "api.example"}
        config = await load(write(tmp_path / "config", server=url, user=user, cluster=cluster))
        assert await self.name_seen(config) == "dave"

    async def test_a_wrong_name_or_ca_is_a_tls_error_without_a_retry(
        self, tls_server: tuple[str, Authority], tmp_path: Path
    ) -> None:
        url, authority = tls_server
        other = make_authority()
        for cluster in (
            {"certificate-authority-data": encode(other.pem), "tls-server-name": "api.example"},
            {"certificate-authority-data": encode(authority.pem)},
            {},
        ):
            config = await load(write(tmp_path / "config", server=url, cluster=cluster))
            with pytest.raises(UnavailableError) as caught:
                await self.name_seen(config)
            assert caught.value.reason == "TLSFailure"

    async def test_verification_can_be_switched_off(self, tls_server: tuple[str, Authority], tmp_path: Path) -> None:
        url, _ = tls_server
        cluster = {"insecure-skip-tls-verify": True}
        config = await load(write(tmp_path / "config", server=url, cluster=cluster))
        assert await self.name_seen(config) == "nobody"

    async def test_an_encrypted_key_is_an_error_and_no_prompt(
        self, tls_server: tuple[str, Authority], tmp_path: Path
    ) -> None:
        url, authority = tls_server
        certificate, _ = authority.issue("eve")
        key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
        user = {"client-certificate-data": encode(certificate), "client-key-data": encode(key)}
        with pytest.raises(ConfigError, match="unusable"):
            await load(write(tmp_path / "config", server=url, user=user))
