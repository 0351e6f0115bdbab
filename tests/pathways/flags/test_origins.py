"""Where the fields of a JobSet come from that flags describe."""

from __future__ import annotations

from typing import Any, Final

from gangctl.pathways.flags.pathwaysjob import read_flags
from gangctl.pathways.flags.table import Flags
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Origin, OriginKind, Profile, RenderingInputs
from tests.rows import each

HEAD: Final = "spec.replicatedJobs[0].template.spec.template.spec"
CLIENT: Final = f"{HEAD}.containers[0]"
WORKERS: Final = "spec.replicatedJobs[1]"


def origins(profile: Profile = Profile.GANG, options: PathwaysOptions | None = None, **changes: Any) -> Any:
    """By field of the JobSet."""
    said = {
        "workload": "train",
        "tpu_type": "v5p-8",
        "command": "python train.py",
        "docker_image": "registry.example/train:1",
        "pathways_gcs_location": "gs://bucket/run",
    }
    job = read_flags(Flags(**(said | changes)), profile, options or PathwaysOptions()).job
    assert job is not None
    return render(job, RenderingInputs(profile)).origins


@each(
    ("path", "name", "value"),
    [
        (f"{WORKERS}.replicas", "num_slices", 2),
        ("spec.failurePolicy.maxRestarts", "max_restarts", 0),
        (f"{CLIENT}.name", "docker_name", "trainer"),
        (f"{HEAD}.initContainers[0].image", "pathways_version", "v1"),
        (f"{CLIENT}.command[0]", "wrapper", "sh"),
    ],
)
def test_given_flags_and_defaults_have_different_origins(path: str, name: str, value: Any) -> None:
    flag = f"--{name.replace('_', '-')}"
    given, silent = origins(**{name: value})[path], origins()[path]
    assert (given.kind, given.place) == (OriginKind.FLAG, flag)
    assert silent.kind is OriginKind.DEFAULT
    assert silent.place == flag


def test_origins_of_the_command_and_its_wrapper() -> None:
    found = origins()
    assert found[f"{CLIENT}.command[0]"] == Origin(OriginKind.DEFAULT, "--wrapper", "forwards SIGTERM to the command")
    assert found[f"{CLIENT}.command[4]"] == Origin(OriginKind.FLAG, "--command")
    assert origins(wrapper="none")[f"{CLIENT}.command[1]"] == Origin(OriginKind.FLAG, "--command")


def test_origins_of_sizes() -> None:
    found = origins(docker_resources=("limits.cpu=1", "limits.ephemeral-storage=1G"))
    path = f"{CLIENT}.resources."
    kinds = {each.removeprefix(path): origin.kind for each, origin in found.items() if each.startswith(path)}
    asked = {each for each, kind in kinds.items() if kind is OriginKind.FLAG}
    assert asked == {"limits.cpu", "requests.cpu", "limits.ephemeral-storage"}
    assert kinds["requests.memory"] is kinds["limits.memory"] is OriginKind.RULE


def test_origins_of_the_node_of_the_head() -> None:
    place = f"{HEAD}.nodeSelector[cloud.google.com/gke-nodepool]"
    assert origins(head_pool="heads")[place] == Origin(OriginKind.FLAG, "--head-pool")
    by_label = PathwaysOptions(head_node_selector={"cloud.google.com/gke-nodepool": "heads"})
    assert origins(options=by_label)[place] == Origin(OriginKind.FLAG, "--head-node-selector")
    assert origins(Profile.XPK)[place].kind is OriginKind.RULE


def test_origins_of_gang_annotations() -> None:
    place = "metadata.annotations[gangctl.dev/gang-mode]"
    assert origins(gang_mode="Gang")[place] == Origin(OriginKind.FLAG, "--gang-mode")
    assert origins(Profile.XPK)[place].kind is OriginKind.RULE
    asked = origins(annotation=("gangctl.dev/gang-mode=Gang",))[place]
    assert asked == Origin(OriginKind.FLAG, "--annotation gangctl.dev/gang-mode")


def test_origins_of_host_mounts() -> None:
    for path in (f"{CLIENT}.volumeMounts[0].name", f"{HEAD}.volumes[0].name", f"{CLIENT}.securityContext.privileged"):
        assert origins(Profile.XPK)[path].kind is OriginKind.RULE
    asked = origins(mount_tmp=True)
    assert asked[f"{HEAD}.volumes[0].hostPath.path"] == Origin(OriginKind.FLAG, "--mount-tmp")
