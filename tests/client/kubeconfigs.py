"""Kubeconfigs that tests write and load."""

from __future__ import annotations

import stat
import textwrap
from pathlib import Path
from typing import Any

import yaml

from gangctl.client.config import ClusterConfig, load_cluster

SECRET = "s3cr3t-t0ken"


def write(path: Path, *, server: str = "https://127.0.0.1:1", **parts: Any) -> Path:
    """Write a kubeconfig with one context; ``parts`` replace or extend user, cluster and context."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", **parts.get("context", {})}}],
        "clusters": [{"name": "k", "cluster": {"server": server, **parts.get("cluster", {})}}],
        "users": [{"name": "u", "user": parts.get("user", {"token": SECRET})}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({**document, **parts.get("document", {})}))
    return path


async def load(path: Path | str | None = None, **arguments: Any) -> ClusterConfig:
    arguments.setdefault("environ", {})
    arguments.setdefault("home", Path("/nonexistent"))
    return await load_cluster(kubeconfig=path, **arguments)


async def headers_of(config: ClusterConfig) -> list[tuple[str, str]]:
    return list((await config.access()).headers)


def plugin(directory: Path, status: str, *, code: int = 0, body: str = "") -> dict[str, Any]:
    """Write a plugin that counts its runs in a file and prints ``status`` with N as the count."""
    script = directory / "plugin.sh"
    script.write_text(
        textwrap.dedent(
            f"""\
            #!/bin/sh
            {body}
            echo run >> {directory}/runs
            n=$(wc -l < {directory}/runs | tr -d ' ')
            printf '%s' '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":'
            printf '%s}}' '{status}' | sed "s/@N@/$n/"
            echo log in first >&2
            exit {code}
            """
        )
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"command": "./plugin.sh", "apiVersion": "client.authentication.k8s.io/v1"}}
