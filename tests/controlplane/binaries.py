"""
Where each binary and each manifest of the control plane comes from.

Every component is a tiny Go tool module under `gomod/`, and that is the only place where a version is written. A
binary is looked for in the directory named by GANGCTL_CONTROLPLANE_BIN, then in the cache, and is built otherwise.
The cache is keyed by the pins and the build flags, so that a change of either can never run a stale binary.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.minors import MINORS, NEWEST

GOMOD = Path(__file__).parent / "gomod"
BIN_VARIABLE = "GANGCTL_CONTROLPLANE_BIN"


class MissingBinary(Exception):  # noqa: N818 - it states what is the matter, as the standard library's LookupErrors do
    """A binary (or its manifests) is neither at hand nor can it be built."""


@dataclass(frozen=True)
class Component:
    """
    One pinned Go module and what is taken from it.

    `manifests` maps a short name to a directory of the module; its YAML files are kept beside the binaries.
    `version_variables` are linker variables that make the binary report its release instead of v0.0.0. `node` for what
    only a real node needs, `full` for what only the full tier needs: they are built on request.
    """

    name: str
    module: str
    packages: dict[str, str]
    tags: tuple[str, ...] = ()
    manifests: dict[str, str] = field(default_factory=dict)
    version_variables: tuple[str, ...] = ()
    node: bool = False
    full: bool = False

    @property
    def directory(self) -> Path:
        return GOMOD / self.name

    @property
    def version(self) -> str:
        """The release without its leading v, read from the component's go.mod."""
        text = (self.directory / "go.mod").read_text()
        found = re.search(rf"^(?:require\s+|\s+){re.escape(self.module)} v(\S+)", text, re.MULTILINE)
        if found is None:
            raise ValueError(f"{self.directory / 'go.mod'} requires no version of {self.module}")
        return found[1]

    @property
    def linker_flags(self) -> str:
        major, minor = self.version.split(".")[:2]
        values = {"gitVersion": f"v{self.version}", "gitMajor": major, "gitMinor": minor}
        settings = [
            f"-X {name}={values.get(name.rpartition('.')[2], f'v{self.version}')}" for name in self.version_variables
        ]
        return " ".join(["-s -w", *settings])

    @property
    def build_flags(self) -> tuple[str, ...]:
        tags = (f"-tags={','.join(self.tags)}",) if self.tags else ()
        # The linker strips what debuggers read; not even to compile it saves an eighth of the build.
        return ("-trimpath", *tags, "-gcflags=all=-dwarf=false", f"-ldflags={self.linker_flags}")

    def file_name(self, binary: str) -> str:
        return f"{binary}-{self.version}"

    @property
    def manifest_directory_name(self) -> str:
        return f"{self.name}-{self.version}.manifests"

    @property
    def cache_directory(self) -> Path:
        own = sorted(self.directory.glob("*.go"))
        pins = b"".join(path.read_bytes() for path in (self.directory / "go.mod", self.directory / "go.sum", *own))
        key = hashlib.sha256(pins + repr(self.build_flags).encode()).hexdigest()[:12]
        return cache_root() / f"{self.name}-{self.version}-{key}"


_KUBE_VERSION = tuple(f"k8s.io/component-base/version.{name}" for name in ("gitVersion", "gitMajor", "gitMinor"))
KUBE_BINARIES = ("kube-apiserver", "kube-scheduler", "kube-controller-manager")


def _kubernetes(minor: str) -> Component:
    binaries = (*KUBE_BINARIES, "kubectl") if minor == NEWEST else KUBE_BINARIES
    return Component(
        name=f"kubernetes-{minor}",
        module="k8s.io/kubernetes",
        packages={binary: f"k8s.io/kubernetes/cmd/{binary}" for binary in binaries},
        version_variables=_KUBE_VERSION,
    )


JOBSETS = ("jobset", "jobset-0.11", "jobset-0.10")
"""The newest release of JobSet, and older ones that people run."""

_KUBEBUILDER_MANIFESTS = {"crd": "config/components/crd/bases", "webhook": "config/components/webhook"}

COMPONENTS: dict[str, Component] = {
    component.name: component
    for component in (
        Component("etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"}),
        *(_kubernetes(minor) for minor in MINORS),
        *(
            Component(
                name,
                "sigs.k8s.io/jobset",
                {name: "sigs.k8s.io/jobset"},
                manifests=_KUBEBUILDER_MANIFESTS,
                full=name != JOBSETS[0],
            )
            for name in JOBSETS
        ),
        Component(
            "kwok",
            "sigs.k8s.io/kwok",
            {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
            manifests={"node": "kustomize/stage/node/fast", "pod": "kustomize/stage/pod/fast"},
            version_variables=("sigs.k8s.io/kwok/pkg/consts.Version",),
        ),
        # One dependency of Kueue is unknown to the checksum database; the tag leaves it out of the build.
        Component(
            "kueue",
            "sigs.k8s.io/kueue",
            {"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
            tags=("exclude_scheduler_library",),
            manifests=_KUBEBUILDER_MANIFESTS,
            version_variables=("sigs.k8s.io/kueue/pkg/version.GitVersion",),
        ),
        Component(
            "trainer",
            "github.com/kubeflow/trainer/v2",
            {"trainer": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"},
            manifests={"crd": "manifests/base/crds", "webhook": "manifests/base/webhook"},
            full=True,
        ),
        Component(
            "lws",
            "sigs.k8s.io/lws",
            {"lws": "sigs.k8s.io/lws/cmd"},
            manifests={"crd": "config/crd/bases", "webhook": "config/webhook"},
            full=True,
        ),
        Component(
            "kubeconform",
            "github.com/yannh/kubeconform",
            {"kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform"},
        ),
        Component("helm", "helm.sh/helm/v4", {"helm": "helm.sh/helm/v4/cmd/helm"}),
        # A program of the tests' own, with a library of Kubernetes.
        Component("workloadbuilder", "k8s.io/component-helpers", {"workloadbuilder": "."}),
        # Of these two the definitions alone, for what manifests/ has of their kinds.
        Component("cert-manager", "github.com/cert-manager/cert-manager", {}, manifests={"crd": "deploy/crds"}),
        Component(
            "prometheus-operator",
            "github.com/prometheus-operator/prometheus-operator",
            {},
            manifests={"crd": "example/prometheus-operator-crd"},
        ),
        # Without the clients of every cloud's service discovery, which are more than half of it.
        Component(
            "prometheus",
            "github.com/prometheus/prometheus",
            {name: f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")},
            tags=("remove_all_sd",),
            version_variables=("github.com/prometheus/common/version.Version",),
        ),
        Component(
            "node",
            "k8s.io/kubernetes",
            {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-proxy")},
            version_variables=_KUBE_VERSION,
            node=True,
        ),
        Component(
            "containerd",
            "github.com/containerd/containerd/v2",
            {
                name: f"github.com/containerd/containerd/v2/cmd/{name}"
                for name in ("containerd", "containerd-shim-runc-v2", "ctr")
            },
            version_variables=("github.com/containerd/containerd/v2/version.Version",),
            node=True,
        ),
        Component(
            "cni",
            "github.com/containernetworking/plugins",
            {
                name: f"github.com/containernetworking/plugins/plugins/{kind}/{name}"
                for kind, name in (("main", "bridge"), ("main", "loopback"), ("ipam", "host-local"))
            },
            node=True,
        ),
        Component("coredns", "github.com/coredns/coredns", {"coredns": "github.com/coredns/coredns"}, node=True),
    )
}


def cache_root() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gangctl" / "controlplane"


def owner(binary: str, minor: str = NEWEST) -> Component:
    """The component a binary comes from; Kubernetes' own binaries exist once per minor."""
    for component in COMPONENTS.values():
        if binary in component.packages and component.name.removeprefix("kubernetes-") in {minor, component.name}:
            return component
    raise ValueError(f"no component builds {binary!r} for Kubernetes {minor}")


def locations(component: Component) -> Iterator[Path]:
    """The directories that may hold a component's files, in order of preference."""
    if named := os.environ.get(BIN_VARIABLE):
        yield Path(named)
    yield component.cache_directory


def find_binary(component: Component, binary: str) -> Path | None:
    for directory in locations(component):
        path = directory / component.file_name(binary)
        if os.access(path, os.X_OK) and path.is_file():
            return path.resolve()
    return None


def find_manifests(component: Component) -> Path | None:
    for directory in locations(component):
        path = directory / component.manifest_directory_name
        if path.is_dir():
            return path.resolve()
    return None
