"""Malformed kubeconfigs are used or refused with one error, and their secrets are never printed."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gangctl.client import config as configuration
from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.resources import PODS
from gangctl.client.transport import Transport, TransportOptions
from gangctl.errors import ApiError, ConfigError, one_line
from tests.cli.manifests import gang
from tests.hostile.commands import gangctl, is_refused
from tests.hostile.profiles import tries
from tests.hostile.words import ANSI, FORGED_LOG, LONG, json_values
from tests.rows import each
from tests.strategies import _places as places

SECRET = "s3cr3t-of-the-cluster"
CODED = base64.b64encode(SECRET.encode()).decode()
NOWHERE = "https://127.0.0.1:9"


def kubeconfig(user: Any = None, cluster: Any = None, context: Any = None, **document: Any) -> dict[str, Any]:
    """A kubeconfig of one context, for a server that is not there."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", **(context or {})}}],
        "clusters": [{"name": "k", "cluster": {"server": NOWHERE, **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": SECRET} if user is None else user}],
        **document,
    }


def contains_no_secret(text: str) -> None:
    assert SECRET not in text
    assert CODED not in text
    assert SECRET[::-1] not in text


async def used(file: Path) -> str:
    """Load it and ask the server something; the error that this must end with."""
    try:
        cluster = await load_cluster(kubeconfig=file, environ={}, home=Path("/nonexistent"))
        async with Transport(cluster, TransportOptions(attempts=1, connect_timeout_seconds=2)) as transport:
            await Client(transport).get(PODS, "p", "ns", timeout_seconds=3)
    except ConfigError as refused:
        return f"{refused.message}\n{refused.hint}"
    except ApiError as unreachable:
        return str(unreachable)
    raise AssertionError("there is no server")


def tried(file: Path) -> str:
    """The same, with everything that was logged."""
    with capture_logs() as logs:
        printed = asyncio.run(used(file))
    contains_no_secret(f"{printed}\n{logs}")
    assert len(printed) < 5000
    return printed


HALF_A_CERTIFICATE = b"-----BEGIN CERTIFICATE-----\n"
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}
FULL = kubeconfig(
    user={
        "token": SECRET,
        "username": "me",
        "password": SECRET,
        "client-certificate-data": CODED,
        "client-key-data": CODED,
        "as": "x",
        "as-uid": "1",
        "as-groups": ["g"],
        "as-user-extra": {"k": ["v"]},
    },
    cluster={
        "certificate-authority-data": CODED,
        "proxy-url": f"http://me:{SECRET}@127.0.0.1:9",
        "tls-server-name": "x",
        "insecure-skip-tls-verify": False,
    },
    context={"namespace": "n"},
)
OTHERS = (
    kubeconfig({"exec": EXEC}),
    kubeconfig({"tokenFile": "/nonexistent"}),
    kubeconfig({"auth-provider": {"name": "oidc", "config": {"id-token": SECRET, "client-secret": SECRET}}}),
    kubeconfig(),
    FULL,
)


@st.composite
def mangled(draw: st.DrawFn) -> Any:
    value = copy.deepcopy(draw(st.sampled_from(OTHERS)))
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(places(value, [])))
        if draw(st.integers(0, 3)) == 0:
            del container[key]
        else:
            container[key] = draw(st.one_of(json_values, st.just({"x": SECRET}), st.just([SECRET]), st.just(True)))
        if not places(value, []):
            break
    return value


@given(value=mangled())
@example(kubeconfig(context={"cluster": {"x": SECRET}}))
@example(kubeconfig(**{"current-context": {"x": SECRET}}))
@example(kubeconfig({"token": f"{SECRET}\r\nX-Injected: yes"}))
@example(kubeconfig({"token": f"{SECRET}é"}))
@example(kubeconfig({"token": {"x": SECRET}}))
@example(kubeconfig({"as": "x\ny"}))
@example(kubeconfig({"as-groups": "system:masters"}))
@example(kubeconfig({"as-groups": 5}))
@example(kubeconfig({"as-user-extra": [SECRET]}))
@example(kubeconfig({"exec": SECRET}))
@example(kubeconfig({"exec": {**EXEC, "args": SECRET}}))
@example(kubeconfig({"exec": {**EXEC, "env": [{"name": "A=B", "value": SECRET}]}}))
@example(kubeconfig({"exec": {**EXEC, "env": [{"name": "A\0", "value": SECRET}]}}))
@example(kubeconfig({"exec": {**EXEC, "command": "a\0b"}}))
@example(kubeconfig({"auth-provider": SECRET}))
@example(kubeconfig({"auth-provider": {"name": "oidc", "config": {"id-token": f"a.{SECRET}.c"}}}))
@example(kubeconfig({"auth-provider": {"name": "gcp", "config": {"access-token": SECRET, "expiry": SECRET}}}))
@example(kubeconfig({"tokenFile": "a\0b"}))
@example(kubeconfig({"client-key-data": 5, "client-certificate-data": [SECRET]}))
@example(kubeconfig(cluster={"server": "https://a\nb:1"}))
@example(kubeconfig(cluster={"server": "https://" + "a" * 300}))
@example(kubeconfig(cluster={"server": "https://a..b"}))
@example(kubeconfig(cluster={"server": "https://[::1"}))
@example(kubeconfig(cluster={"server": "https://x:99999999"}))
@example(kubeconfig(cluster={"server": f"https://127.0.0.1:9/{SECRET[:0]}?a=b#c"}))
@example(kubeconfig(cluster={"tls-server-name": ".x"}))
@example(kubeconfig(cluster={"tls-server-name": "a" * 300}))
@example(kubeconfig(cluster={"tls-server-name": "a\0b"}))
@example(kubeconfig(cluster={"proxy-url": f"http://me:{SECRET}@"}))
@example(kubeconfig(cluster={"proxy-url": f"http://me:{SECRET}@[x"}))
@example(kubeconfig(cluster={"proxy-url": 5}))
@example(kubeconfig(cluster={"insecure-skip-tls-verify": "false"}))
@example(kubeconfig(cluster={"certificate-authority-data": base64.b64encode(HALF_A_CERTIFICATE).decode()}))
@example(kubeconfig(cluster={"certificate-authority": "/dev/zero"}))
@example(kubeconfig({"tokenFile": "/dev/zero"}))
@tries(80)
def test_any_malformed_kubeconfig_is_used_or_refused_without_its_secrets(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    file = tmp_path_factory.mktemp("k") / "config"
    file.write_text(json.dumps(value))
    printed = tried(file)
    assert "Injected" not in printed


def test_the_text_false_does_not_switch_verification_off(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(json.dumps(kubeconfig(cluster={"insecure-skip-tls-verify": "false"})))
    assert "insecure-skip-tls-verify: expected true or false" in tried(tmp_path / "config")


LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
TEXTS: dict[str, bytes] = {
    "a-broken-line": f"users:\n- name: u\n  user:\n    token: {SECRET}: [\n".encode(),
    "a-secret-as-alias": f"users: *{SECRET}\n".encode(),
    "a-secret-as-tag": f"users: !{SECRET} x\n".encode(),
    "a-secret-as-key": f"{SECRET}: 1\n{SECRET}: 2\n".encode(),
    "a-secret-as-document": SECRET.encode(),
    "python": b"!!python/object/apply:os.system ['true']\n",
    "deep": b"[" * 1_000_000,
    "deep-block": b"- " * 100_000,
    "laughs": LAUGHS.encode(),
    "a-circle": b"users: &a\n  <<: *a\n",
    "a-bad-date": b"current-context: !!timestamp words\n",
    "an-odd-date": b"users: 2001-99-99\n",
    "binary": b"users: !!binary '%%%'\n",
    "utf-16-without-a-mark": json.dumps(kubeconfig()).encode("utf-16-le"),
    "bytes": bytes(range(256)),
    "two-documents": b"a: 1\n---\nb: 2\n",
    "nothing": b"",
    "a-list": b"[1, 2]",
    "huge": b"# x\n" * 3_000_000,
}


@each("case", TEXTS)
def test_any_text_is_refused_with_its_file(case: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(TEXTS[case])
    assert str(tmp_path / "config") in tried(tmp_path / "config")


@each("mark", [b"", b"\xef\xbb\xbf"])
@each("text", [json.dumps(kubeconfig()), yaml.safe_dump(kubeconfig())])
def test_kubeconfigs_in_json_and_with_a_byte_order_mark_are_read(text: str, mark: bytes, tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(mark + text.encode())
    assert "ConnectFailed" in tried(tmp_path / "config") or "get pods" in tried(tmp_path / "config")


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/", "fifo", "loop"])
def test_a_kubeconfig_that_is_no_file_is_refused(path: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    tried(tmp_path / path)


PLUGINS: dict[str, tuple[str, str]] = {
    "garbage": (f"echo {SECRET}", "not JSON"),
    "nothing": ("true", "not JSON"),
    "nul": ("printf '\\0\\377'", "not JSON"),
    "without-end": (f"yes {SECRET}", "printed more than"),
    "binary-without-end": ("cat /dev/zero", "printed more than"),
    "fails": (f"echo {SECRET}; echo {SECRET} >&2; exit 1", "process returned 1"),
    "killed": ("kill -9 $$", "process returned -9"),
    "loud": (f"yes {SECRET} | head -c 5000000 >&2; exit 2", "process returned 2"),
    "a-list": ("echo '[]'", "no ExecCredential"),
    "no-status": ('echo \'{"kind":"ExecCredential"}\'', "no ExecCredential"),
    "other-version": (f"V={SECRET}; status '{{}}'", "apiVersion is not"),
    "no-token": ("status '{}'", "needs a token"),
    "half-a-pair": (f'status \'{{"clientCertificateData":"{SECRET}"}}\'', "needs a token"),
    "a-pair-of-nothing": (f'status \'{{"clientCertificateData":"{SECRET}","clientKeyData":"{SECRET}"}}\'', "unusable"),
    "a-number": ("status '{\"token\":5}'", "status.token is not text"),
    "line-breaks": (f'status \'{{"token":"{SECRET}\\r\\nX-Injected: yes"}}\'', "cannot carry"),
    "no-time": (f'status \'{{"token":"{SECRET}","expirationTimestamp":"{SECRET}"}}\'', "is not a time"),
    "hangs": ("exec sleep 1000", "no credentials within"),
    "leaves-a-child": ("sleep 5 & exec sleep 1000", "no credentials within"),
}


@each("case", PLUGINS)
def test_hostile_exec_plugins_are_refused_without_their_secrets(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, words = PLUGINS[case]
    plugin = tmp_path / "plugin"
    status = 'status() { printf \'{"apiVersion":"%s","kind":"ExecCredential","status":%s}\' "$V" "$1"; }'
    plugin.write_text(f"#!/bin/sh\nV={EXEC['apiVersion']}\n{status}\n{script}\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "config").write_text(json.dumps(kubeconfig({"exec": {**EXEC, "command": "./plugin"}})))
    monkeypatch.setattr(configuration, "_EXEC_TIMEOUT_SECONDS", 0.5 if "within" in words else 20)
    assert words in tried(tmp_path / "config")


def test_an_exec_plugin_that_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plugin").write_text("words")
    for command in ("./plugin", str(tmp_path), "./absent", "/dev/null"):
        (tmp_path / "config").write_text(json.dumps(kubeconfig({"exec": {**EXEC, "command": command}})))
        assert "exec: " in tried(tmp_path / "config")


@pytest.mark.parametrize("level", ["debug", "info"])
def test_a_controller_reports_one_error_and_no_secret(level: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(gang()))
    broken = kubeconfig({"token": SECRET, "client-key-data": CODED, "password": SECRET})
    (tmp_path / "config").write_text(json.dumps(broken))
    ran = gangctl("controller", "--kubeconfig", str(tmp_path / "config"), "--log-level", level)
    contains_no_secret(is_refused(ran, 2))
    ran = gangctl("plan", "-f", str(tmp_path / "a.json"), "--kubeconfig", str(tmp_path / "config"))
    contains_no_secret(is_refused(ran, 2))
    (tmp_path / "config").write_text(json.dumps(kubeconfig()))
    ran = gangctl("plan", "-f", str(tmp_path / "a.json"), "--kubeconfig", str(tmp_path / "config"))
    contains_no_secret(is_refused(ran, 3))


@each("name", [ANSI, FORGED_LOG, LONG])
def test_control_characters_in_names_of_a_kubeconfig_are_escaped(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(gang()))
    value = kubeconfig(**{"current-context": name})
    for document in (value, {**value, "contexts": [{"name": name, "context": {"cluster": name}}]}):
        (tmp_path / "config").write_text(json.dumps(document))
        arguments = ("plan", "-f", str(tmp_path / "a.json"), "--kubeconfig", str(tmp_path / "config"))
        ran = gangctl(*arguments)
        printed = is_refused(ran, 2)
        assert one_line(printed, 5000)
        assert len(printed) < 2000
