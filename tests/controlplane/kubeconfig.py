"""Writes kubeconfig files, with all certificates inside: such a file works wherever it is copied to."""

import base64
from pathlib import Path

import yaml

from tests.controlplane.pki import KeyPair


def write(path: Path, *, url: str, ca: Path, user: KeyPair) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "controlplane", "cluster": {"server": url, "certificate-authority-data": _encoded(ca)}}],
        "users": [
            {
                "name": "user",
                "user": {
                    "client-certificate-data": _encoded(user.certificate),
                    "client-key-data": _encoded(user.key),
                },
            }
        ],
        "contexts": [{"name": "controlplane", "context": {"cluster": "controlplane", "user": "user"}}],
        "current-context": "controlplane",
    }
    text = yaml.safe_dump(document)
    # A program that is reading it must not find it empty.
    if not path.exists() or path.read_text() != text:
        path.touch(mode=0o600)
        path.write_text(text)
    return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
