from __future__ import annotations

from gangctl.sandbox.server import Sandbox
from tests.rows import each
from tests.sandbox.wire import CONFIGMAPS, Wire


async def test_a_delete_takes_options_from_the_query(wire: Wire) -> None:
    await wire.configmap("a")
    marked = await wire.send("DELETE", f"{CONFIGMAPS}/a?propagationPolicy=Foreground")
    assert marked.json["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_reviews_are_answered(sandbox: Sandbox, wire: Wire) -> None:
    access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await wire.send("POST", access, {"spec": {}})).json["status"] == {"allowed": True}
    tokens = "/apis/authentication.k8s.io/v1/tokenreviews"
    known = await wire.send("POST", tokens, {"spec": {"token": sandbox.token("somebody")}})
    assert known.json["status"]["user"]["username"] == "somebody"
    assert "error" in (await wire.send("POST", tokens, {"spec": {"token": "x"}})).json["status"]


@each("token", ["", "wrong"])
async def test_unauthenticated_clients_may_get_health_only(sandbox: Sandbox, token: str) -> None:
    async with Wire(sandbox.url, token) as stranger:
        assert (await stranger.get(CONFIGMAPS)).status == 401
        assert (await stranger.get("/apis")).status == 401
        assert (await stranger.get("/readyz")).text == "ok"
        assert (await stranger.get("/version")).status == 200
