"""Where a pod's service account is found, when it is not where Kubernetes mounts it."""

from __future__ import annotations

from pathlib import Path

from gangctl.client.config import SERVICE_ACCOUNT_VARIABLE, load_cluster
from tests.client.test_config import make_authority


async def test_the_service_account_directory_is_read_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0\n")
    (tmp_path / "ca.crt").write_bytes(make_authority().pem)
    (tmp_path / "namespace").write_text("gangctl-system\n")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    config = await load_cluster(environ={**environ, SERVICE_ACCOUNT_VARIABLE: str(tmp_path)})
    assert (config.server, config.namespace) == ("https://10.0.0.1:443", "gangctl-system")
    assert config.origin == f"service account in {tmp_path}"
