"""What the components of one plane share: its directory, its trust, its ports and its API server's address."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane import kubeconfig
from tests.controlplane.api import ApiClient
from tests.controlplane.build import ensure_binary
from tests.controlplane.minors import Minor
from tests.controlplane.pki import KeyPair, Pki, file_name
from tests.controlplane.ports import Ports


@dataclass
class Site:
    """The ground one plane stands on."""

    directory: Path
    minor: Minor
    pki: Pki
    ports: Ports
    api_port: int
    _users: dict[str, KeyPair] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def ca(self) -> Path:
        return self.pki.cluster.certificate

    def binary(self, name: str) -> str:
        return str(ensure_binary(name, self.minor.name))

    def log(self, component: str) -> Path:
        return self.directory / f"{component}.log"

    def user(self, name: str, groups: Sequence[str] = ()) -> KeyPair:
        """This user's certificate; the same one each time it is asked for."""
        key = file_name(name, groups)
        if key not in self._users:
            self._users[key] = self.pki.cluster.client(name, groups)
        return self._users[key]

    def kubeconfig(self, name: str, groups: Sequence[str] = ()) -> Path:
        path = self.directory / f"{file_name(name, groups)}.kubeconfig"
        return kubeconfig.write(path, url=self.url, ca=self.ca, user=self.user(name, groups))

    def client(self, name: str, groups: Sequence[str] = ()) -> ApiClient:
        return ApiClient(self.url, ca=self.ca, user=self.user(name, groups))

    def write(self, name: str, *documents: Any) -> Path:
        path = self.directory / name
        path.write_text(yaml.safe_dump_all(documents))
        return path
