"""The plugin of kubectl as krew installs it: an archive that any platform with Python can run, and its manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from release.archive import pack
from release.build import sha256

LAUNCHER: Final = Path("release/kubectl-gang.sh")
DESCRIPTION: Final = """\
Shows which gangs a cluster has, why one does not start and what to do, plans gangs of JobSets
offline, checks Kueue quota, evaluates policies, and installs and diagnoses gangctl.
"""
CAVEATS: Final = """\
Needs Python 3.11 to 3.14. The first call installs the locked packages from the package index
into the directory of the plugin.
"""


def krew_archive(tree: Path, wheel: Path, path: Path, time: int) -> None:
    """Write launcher, wheel and lock, with the same bytes each time; every file inside gets ``time``."""
    files = {
        "kubectl-gang": (tree / LAUNCHER, 0o755),
        "LICENSE": (tree / "LICENSE", 0o644),
        "runtime.txt": (tree / "locks" / "runtime.txt", 0o644),
        wheel.name: (wheel, 0o644),
    }
    pack(path, files, time)


def krew_manifest(version: str, archive: Path, url: str, homepage: str) -> str:
    """The manifest (krew.googlecontainertools.github.com/v1alpha2, Plugin) of an archive published below ``url``."""
    platform = {
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]},
        "uri": f"{url.rstrip('/')}/{archive.name}",
        "sha256": sha256(archive),
        "bin": "kubectl-gang",
        "files": [{"from": "*", "to": "."}],
    }
    plugin = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "gang"},
        "spec": {
            "version": f"v{version}",
            "homepage": homepage,
            "shortDescription": "Gang scheduling for JobSets",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [platform],
        },
    }
    return yaml.safe_dump(plugin, sort_keys=False)
