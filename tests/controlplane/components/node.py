"""
A node: containerd and the kubelet, in a Process whose end is the end of the machine.

Several share this machine, each with a containerd, an address, a range of pod addresses and a cgroup of its own.
"""

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.controlplane.api import ApiClient, ApiFailure, path_of
from tests.controlplane.machine import ADDRESS, BRIDGE
from tests.controlplane.process import Process
from tests.controlplane.site import Site

_INIT = Path(__file__).parents[1] / "node_init.py"
_CGROUPS = Path("/sys/fs/cgroup")
_CGROUP = "gangctl-node-"
SANDBOX_IMAGE = "localhost/pause:1"
DNS_DOMAIN = "cluster.local"

# CAP_SYS_RESOURCE may be missing, as in containers: without this no sandbox starts there.
_CONTAINERD = """\
version = 3
root = "{root}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = "{socket}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{cni}"]
conf_dir = "{root}/cni"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{shim}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{runc}"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{sandbox}"
"""


def node(site: Site, number: int, images: Sequence[Path]) -> Process:
    """Node `number`, from 1, with the images of these archives."""
    name, address, root = f"node-{number}", f"10.88.0.{number}", site.directory / f"node-{number}"
    (root / "cni").mkdir(parents=True)
    (root / "bin").mkdir()
    socket = "/run/containerd/containerd.sock"
    binaries = {each: site.binary(each) for each in ("containerd-shim-runc-v2", "bridge", "loopback", "host-local")}
    for each, path in binaries.items():
        # CNI finds a plugin by its name.
        (root / "bin" / each).symlink_to(path)
    (root / "cni" / "10-pods.conflist").write_text(json.dumps(_pod_network(number, root)))
    config = root / "containerd.toml"
    config.write_text(
        _CONTAINERD.format(
            root=root,
            socket=socket,
            cni=root / "bin",
            shim=binaries["containerd-shim-runc-v2"],
            runc=shutil.which("runc"),
            sandbox=SANDBOX_IMAGE,
        )
    )
    health = site.ports.take()
    kubelet = [
        site.binary("kubelet"),
        f"--config={site.write(f'{name}.yaml', _kubelet(site, name, health, socket))}",
        f"--kubeconfig={site.kubeconfig(f'system:node:{name}', ['system:nodes'])}",
        f"--hostname-override={name}",
        f"--node-ip={address}",
        f"--root-dir={root}/kubelet",
        f"--cert-dir={root}/pki",
    ]
    make_cgroup(cgroup_of(site, name))
    init = site.directory / f"{name}.json"
    init.write_text(
        json.dumps(
            {
                "containerd": [site.binary("containerd"), f"--config={config}", "--log-level=warn"],
                "socket": socket,
                "import": [site.binary("ctr"), f"--address={socket}", "--namespace=k8s.io", "images", "import"],
                "images": [str(image) for image in images],
                "kubelet": kubelet,
                "started": str(root / "started"),
            }
        )
    )
    command = [
        str(shutil.which("unshare")),
        *("--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"),
        *(sys.executable, "-I", "-S", str(_INIT), str(init)),
    ]
    api = site.client("admin", ["system:masters"])
    return Process(name, command, site.log(name), ready=lambda: _is_ready(api, name))


def cgroup_of(site: Site, name: str) -> str:
    """The cgroup above all pods of a node, from the root of each hierarchy."""
    return f"/{_CGROUP}{os.getpid()}-{site.directory.name}-{name}"


def make_cgroup(name: str) -> None:
    """Make it in every hierarchy: the kubelet wants it to exist."""
    for hierarchy in _hierarchies():
        path = Path(f"{hierarchy}{name}")
        path.mkdir(exist_ok=True)
        if hierarchy.name == "cpuset":
            for file in ("cpuset.cpus", "cpuset.mems"):
                (path / file).write_text((hierarchy / file).read_text())


def remove_cgroup(name: str) -> None:
    """Remove it with what is in it; OSError while a process is in it."""
    for hierarchy in _hierarchies():
        for directory, _, _ in os.walk(f"{hierarchy}{name}", topdown=False):
            with contextlib.suppress(FileNotFoundError):
                Path(directory).rmdir()


def left_cgroups() -> set[str]:
    """Those of all nodes on this machine, also of test runs that were killed."""
    return {f"/{path.name}" for hierarchy in _hierarchies() for path in hierarchy.glob(f"{_CGROUP}*")}


def remove_left_cgroups() -> None:
    """Remove those of test runs that were killed: nothing else of a node outlives its first process."""
    for path in left_cgroups():
        owner = path.removeprefix(f"/{_CGROUP}").partition("-")[0]
        if not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                remove_cgroup(path)


def pod_figures(uid: str) -> tuple[int, float]:
    """Resident memory of a pod in bytes, and the CPU seconds that it has taken. KeyError where cgroups are v2."""
    places = {hierarchy.name: next(hierarchy.glob(f"{_CGROUP}*/kubepods/*/pod{uid}")) for hierarchy in _hierarchies()}
    memory = dict(line.split() for line in (places["memory"] / "memory.stat").read_text().splitlines())
    return int(memory["total_rss"]), int((places["cpuacct"] / "cpuacct.usage").read_text()) / 1e9


def _hierarchies() -> list[Path]:
    """One with cgroup v2, one for each controller with v1."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [path for path in _CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


def _pod_network(number: int, root: Path) -> dict[str, object]:
    ranges = [
        [
            {
                "subnet": "10.88.0.0/16",
                "rangeStart": f"10.88.{number}.1",
                "rangeEnd": f"10.88.{number}.254",
                "gateway": ADDRESS,
            }
        ]
    ]
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": ranges,
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": f"{root}/addresses",
        },
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def _kubelet(site: Site, name: str, health: int, socket: str) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "port": site.ports.take(),
        "healthzPort": health,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_of(site, name),
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": {"memory.available": "10Mi"},
        # On a full disk it would remove the images that tests have imported, and none can be pulled.
        "imageGCHighThresholdPercent": 100,
        "clusterDNS": [ADDRESS],
        "clusterDomain": DNS_DOMAIN,
        "resolvConf": "",
        "volumePluginDir": f"{site.directory}/{name}/plugins",
        # Sooner than the defaults, which are for thousands of nodes: a test waits for these.
        "nodeStatusUpdateFrequency": "5s",
        "nodeLeaseDurationSeconds": 8,
        "syncFrequency": "10s",
    }


async def _is_ready(api: ApiClient, name: str) -> bool:
    try:
        found = await api.get(path_of("v1", "nodes", name=name))
    except ApiFailure:
        return False
    return any(each["type"] == "Ready" and each["status"] == "True" for each in found["status"].get("conditions", []))
