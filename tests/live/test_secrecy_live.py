"""Keys, tokens and names of objects are in no log and no metric, and gangctl connects to the API server only."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import warnings
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import OWN_NAMESPACE, Gangctl, prepare
from tests.live.observe import gang_of
from tests.manager.families import families

pytestmark = pytest.mark.controlplane

ACCOUNT = "robot"
USER = f"system:serviceaccount:{OWN_NAMESPACE}:{ACCOUNT}"
SECRETS = path_of("v1", "secrets", namespace=OWN_NAMESPACE)
ACCOUNTS = path_of("v1", "serviceaccounts", namespace=OWN_NAMESPACE)
OF_JOBSETS = tuple(family.name for family in families() if not {"namespace", "jobset"}.isdisjoint(family.labels))


async def issue(plane: ControlPlane, name: str) -> str:
    """A token that ends with the Secret of this name."""
    secret = await plane.api.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
    bound = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": secret["metadata"]["uid"]}
    request: Object = {"spec": {"boundObjectRef": bound, "expirationSeconds": 3600}}
    answer = await plane.api.create(f"{ACCOUNTS}/{ACCOUNT}/token", request)
    return str(answer["status"]["token"])


def identity(token: str) -> str:
    """How the audit log names a token."""
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return f"JTI={claims['jti']}"


def kubeconfig(plane: ControlPlane, token: Path) -> Path:
    """A kubeconfig of a user who is known by the token in a file."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"] = [{"name": "user", "user": {"tokenFile": str(token)}}]
    path = token.with_suffix(".kubeconfig")
    path.write_text(yaml.safe_dump(config))
    return path


async def refused_everywhere(plane: ControlPlane, token: str) -> None:
    """Wait until the API server has forgotten that it knew a token: it does so for ten seconds."""
    trust = ssl.create_default_context(cafile=str(plane.ca))
    headers = {"Authorization": f"Bearer {token}"}

    async with aiohttp.ClientSession(headers=headers, trust_env=False) as session:

        async def refused() -> bool:
            async with session.get(f"{plane.url}/api", ssl=trust) as answer:
                if answer.status != 401:
                    raise NotYet(f"HTTP {answer.status}")
            return True

        await wait_for(refused, what="the token to be refused", interval=0.5)


async def uses(plane: ControlPlane, namespace: str, *tokens: str) -> None:
    """Wait until objects were created in a namespace with these tokens, and no others."""

    async def logged() -> bool:
        found = set()
        for entry in plane.writes_by(USER).objects:
            if entry["objectRef"].get("namespace") == namespace:
                found.update(entry["user"]["extra"]["authentication.kubernetes.io/credential-id"])
        if found != set(map(identity, tokens)):
            raise NotYet(str(found))
        return True

    await wait_for(logged, what="the tokens in the audit log")


async def test_a_replaced_token_is_used_and_no_secret_is_exposed(bare: Cluster, tmp_path: Path) -> None:
    plane, file = bare.plane, tmp_path / "token"
    await plane.api.create(ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}})
    await prepare(plane, USER)
    old, new = await issue(plane, "old"), await issue(plane, "new")
    file.write_text(old)
    async with Gangctl(plane, user=USER, kubeconfig=kubeconfig(plane, file), name="gangctl-by-token") as gangctl:
        await bare.asked()
        await bare.create_jobset(jobset("discreet-first", rj("w", 1, 1, 1, mode="Gang")))
        first = await gang_of(bare, "discreet-first")
        await uses(plane, bare.namespace, old)
        file.write_text(new)
        await plane.api.delete(f"{SECRETS}/old")
        await refused_everywhere(plane, old)
        await bare.create_jobset(jobset("discreet-second", rj("w", 1, 1, 1, mode="Gang")))

        async def another() -> bool:
            if (names := (await bare.gangs()).names) == first.names:
                raise NotYet(str(names))
            return True

        await wait_for(another, what="the second gang")
        await uses(plane, bare.namespace, old, new)

        _, metrics = await gangctl.fetch("/metrics")
        hidden = [*(await bare.gangs()).names, *(await bare.jobs())]
        assert [name for name in hidden if name in metrics] == []
        # JobSets and their namespaces are named by the families of readiness, and by no others.
        others = "\n".join(line for line in metrics.splitlines() if not line.startswith(OF_JOBSETS))
        assert [name for name in (bare.namespace, "discreet-first") if name in others] == []
        await refuses_old_tls(gangctl)
        keys = (await plane.api.get(f"{SECRETS}/gangctl-webhook-certs"))["data"]
    # At the level debug, and with all that was refused to it.
    assert "Traceback" not in gangctl.log
    secret = [old, new, *(token.rpartition(".")[2] for token in (old, new))]
    for name in ("ca.key", "tls.key"):
        pem = base64.b64decode(keys[name]).decode()
        secret += [keys[name], *(line for line in pem.splitlines() if not line.startswith("-----"))]
    assert [each for each in secret if each in gangctl.log] == []


async def refuses_old_tls(gangctl: Gangctl) -> None:
    """A client that speaks TLS 1.1 at most, and everything in it, is turned away; one with 1.2 is not."""
    host, _, port = gangctl.webhook_address.rpartition(":")
    for version, well in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1_1
            context.maximum_version = version
        if not well:
            # The server hangs up; a client that could not even begin would be an SSLError.
            with pytest.raises(ConnectionResetError):
                await asyncio.open_connection(host, int(port), ssl=context)
            continue
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.2"
        writer.close()
        await writer.wait_closed()
