"""``gangctl sandbox``: a cluster that runs until it is terminated, for kubectl and for gangctl."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from gangctl.cli.sandbox import read_capacity, sandbox
from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.resources import JOBSETS, NODES, PODS, Resource
from gangctl.client.transport import Transport
from gangctl.demo import child
from gangctl.demo.child import controller
from gangctl.demo.simulated import run
from tests.cli.run import gangctl
from tests.controlplane.build import ensure_binary
from tests.controlplane.minors import NEWEST
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.manifests.kubectl import Kubectl
from tests.rows import each

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-pytorch.yaml"


@asynccontextmanager
async def standing(*args: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[str]]]:
    """The process, and what it printed until it was ready."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gangctl", "sandbox", *args),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        printed: list[str] = []
        while not (printed and printed[-1].startswith("export KUBECONFIG=")):
            line = await asyncio.wait_for(process.stdout.readline(), 300)
            if not line:
                assert process.stderr is not None
                raise AssertionError((await process.stderr.read()).decode())
            printed.append(line.decode().rstrip())
        yield process, printed
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def there(file: Path) -> bool:
    return file.exists()


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_sandbox_runs_until_it_is_terminated(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "kubeconfig"
    async with standing("--kube", "1.36", "--kubeconfig-out", str(file)) as (process, printed):
        assert printed[-1] == f"export KUBECONFIG={file}"
        assert "simulated Kubernetes 1.36" in printed[0]
        assert mode(file) == 0o600
        server = yaml.safe_load(file.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
        assert server in printed[0]
        answer = await asyncio.to_thread(gangctl, "plan", "-f", str(EXAMPLE), "--kubeconfig", str(file), "-o", "json")
        assert answer.code == 0, answer.err
        process.send_signal(number)
        _, err = await asyncio.wait_for(process.communicate(), 300)
        assert (process.returncode, err) == (0, b"")
    assert not there(file)


async def test_without_a_file_a_temporary_kubeconfig_is_created_and_removed() -> None:
    async with standing("--nodes", "0") as (process, printed):
        file = Path(printed[-1].removeprefix("export KUBECONFIG="))
        assert mode(file) == 0o600
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.communicate(), 300)
    assert not there(file)
    assert not there(file.parent)


def test_an_existing_kubeconfig_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("mine", encoding="utf-8")
    answer = gangctl("sandbox", "--kubeconfig-out", str(file))
    assert (answer.code, answer.out) == (2, "")
    assert str(file) in answer.err
    assert file.read_text(encoding="utf-8") == "mine"


def test_a_port_in_use_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = gangctl("sandbox", "--port", str(port))
    assert (answer.code, answer.out) == (2, "")
    assert f"--port {port}" in answer.err


@pytest.mark.parametrize("args", [("--kube", "1.34"), ("--nodes", "-1"), ("--port", "70000")])
def test_bad_usage_is_exit_code_2(args: tuple[str, ...]) -> None:
    answer = gangctl("sandbox", *args)
    assert answer.code == 2
    assert args[1] in answer.err


@each(
    ("given", "message"),
    [
        pytest.param("gpu=1", '"gpu" is not a resource of a node: cpu, memory, ', id="no-domain"),
        pytest.param("cpu", '"cpu" is not NAME=AMOUNT, such as nvidia.com/gpu=8', id="no-amount"),
        pytest.param("cpu=1,", '"" is not NAME=AMOUNT', id="nothing-after-a-comma"),
        pytest.param("cpu=", 'cpu: "" is not a quantity', id="empty-amount"),
        pytest.param("cpu=many", 'cpu: "many" is not a quantity', id="no-quantity"),
        pytest.param("cpu=-1", 'cpu: "-1" is not an amount of at least 0', id="negative"),
        pytest.param(
            "nvidia.com/gpu=1.5", 'nvidia.com/gpu: "1.5" is not a whole number of at least 0', id="half-a-gpu"
        ),
        pytest.param("pods=500m", 'pods: "500m" is not a whole number of at least 0', id="half-a-pod"),
        pytest.param("cpu=1,memory=1Gi,cpu=2", '"cpu" is named twice', id="twice"),
    ],
)
def test_an_invalid_capacity_is_refused(given: str, message: str) -> None:
    answer = gangctl("sandbox", "--capacity", given)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert "--capacity" in answer.err


@each(
    ("given", "capacity"),
    [
        ("", {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}),
        ("nvidia.com/gpu=0", {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "0"}),
        (
            "cpu=500m,memory=1.5Gi,pods=5,hugepages-2Mi=4Mi,google.com/tpu=4",
            {
                "cpu": "500m",
                "memory": "1.5Gi",
                "nvidia.com/gpu": "8",
                "pods": "5",
                "hugepages-2Mi": "4Mi",
                "google.com/tpu": "4",
            },
        ),
    ],
)
def test_a_capacity_is_merged_into_the_default(given: str, capacity: dict[str, str]) -> None:
    option = click.Option(["--capacity"])
    assert read_capacity(click.Context(sandbox), option, given) == capacity


async def test_nodes_have_the_requested_capacity(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    async with (
        standing("--nodes", "1", "--capacity", "cpu=2,nvidia.com/gpu=4", "--kubeconfig-out", str(file)) as (_, printed),
        Transport(await load_cluster(kubeconfig=file)) as transport,
    ):
        assert "1 node of cpu=2,memory=512Gi,nvidia.com/gpu=4" in printed[1]
        (node,) = (await Client(transport).list(NODES)).items
        has = {"cpu": "2", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "4"}
        assert node["status"]["capacity"] == node["status"]["allocatable"] == has
        assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.37.2"


def test_a_program_runs_in_it_and_its_code_is_that_of_the_command(tmp_path: Path) -> None:
    script = f"test -f $KUBECONFIG && echo $KUBECONFIG > {tmp_path}/file; exit 7"
    answer = gangctl("sandbox", "--nodes", "0", "--", "bash", "-c", script)
    assert (answer.code, answer.err) == (7, "")
    assert "ends with bash." in answer.out
    assert "export KUBECONFIG" not in answer.out
    assert not there(Path((tmp_path / "file").read_text(encoding="utf-8").strip()))


def test_the_code_of_a_program_that_a_signal_ends_is_that_of_a_shell() -> None:
    assert gangctl("sandbox", "--nodes", "0", "--", "bash", "-c", "kill -KILL $$").code == 128 + signal.SIGKILL


async def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_STOP_SECONDS", 0.01)
    file = tmp_path / "started"
    script = f"trap '' TERM; touch {file}; exec sleep infinity"
    running = asyncio.create_task(run(("bash", "-c", script), tmp_path / "kubeconfig"))

    async def started() -> bool:
        if not there(file):
            raise NotYet("it has not begun")
        return True

    await wait_for(started, what="the program")
    running.cancel()
    assert await running == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("blocked", "code"), [("", 128 + signal.SIGTERM), ("signal.SIGTERM", 7)])
def test_an_interrupted_sandbox_ends_as_its_program_does(number: signal.Signals, blocked: str, code: int) -> None:
    """One that SIGTERM ends, and one that waits for it and exits."""
    line = (
        f"import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [{blocked}]); "
        f"os.kill(os.getppid(), {number}); signal.sigwait([signal.SIGTERM]) if [{blocked}] else signal.pause(); "
        "sys.exit(7)"
    )
    answer = gangctl("sandbox", "--nodes", "0", "--", sys.executable, "-c", line)
    assert (answer.code, answer.err) == (code, "")


def test_a_missing_program_is_an_error() -> None:
    answer = gangctl("sandbox", "--nodes", "0", "--", "/no/such/program")
    assert answer.code == 2
    assert answer.err == "error: cannot run /no/such/program: No such file or directory\n"


async def test_gangctl_makes_gangs_in_it(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    async with (
        standing("--kubeconfig-out", str(file)),
        controller(str(file), None, tmp_path / "gangctl.log"),
        Transport(await load_cluster(kubeconfig=file)) as transport,
    ):
        client = Client(transport)
        await client.create(JOBSETS, jobset("js", rj("w", 1, 2, 2, cpu="1"), mode="Gang", namespace="default"))

        async def bound() -> bool:
            pods = (await client.list(PODS, "default")).items
            if [bool(pod["spec"].get("nodeName")) for pod in pods] != [True, True]:
                raise NotYet(f"{len(pods)} pods")
            return True

        await wait_for(bound, what="the gang to be bound")
        (group,) = (
            await client.list(Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup"), "default")
        ).items
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
        pods = (await client.list(PODS, "default")).items
        names = {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods}
        assert names == {group["metadata"]["name"]}


@pytest.mark.controlplane
async def test_kubectl_works_with_the_sandbox(tmp_path: Path) -> None:
    """The binary is the harness'; the cluster is not."""
    file = tmp_path / "kubeconfig"
    async with standing("--kubeconfig-out", str(file)):
        kubectl = Kubectl(tmp_path, file)
        nodes = await kubectl.run("get", "nodes", "-o", "name")
        assert nodes.text.split() == ["node/node-0", "node/node-1", "node/node-2"]
        manifest = yaml.safe_dump(jobset("js", rj("w", 1, 2, 2, cpu="1"), namespace="default"))
        created = await kubectl.run("apply", "-f", "-", given=manifest)
        assert "jobset.jobset.x-k8s.io/js created" in created.text

        async def running() -> bool:
            pods = await kubectl.run("get", "pods", "-o", "jsonpath={.items[*].status.phase}")
            if pods.text != "Running Running":
                raise NotYet(pods.text)
            return True

        await wait_for(running, what="both pods to run")
        listed = await kubectl.run("get", "jobsets,jobs,events", "-o", "name")
        assert "jobset.jobset.x-k8s.io/js" in listed.text
        assert "job.batch/js-w-0" in listed.text
        watch = await asyncio.create_subprocess_exec(
            *(str(ensure_binary("kubectl", NEWEST)), "get", "pods", "--watch", "--output-watch-events", "--no-headers"),
            env={"HOME": str(tmp_path), "KUBECONFIG": str(file)},
            stdout=asyncio.subprocess.PIPE,
        )
        assert watch.stdout is not None
        try:
            async with asyncio.timeout(300):
                first = [(await watch.stdout.readline()).decode().split() for _ in range(2)]
                # Each once: what comes next is a change.
                await kubectl.run("annotate", "pod", first[0][1], "changed=yes")
                then = (await watch.stdout.readline()).decode().split()
        finally:
            watch.kill()
            await watch.communicate()
        assert [line[0] for line in first] == ["ADDED", "ADDED"]
        assert len({line[1] for line in first}) == 2
        assert then[:2] == ["MODIFIED", first[0][1]]
        await kubectl.run("delete", "jobset", "js", "--wait=false")

        async def gone() -> bool:
            pods = await kubectl.run("get", "pods", "-o", "name")
            if pods.text:
                raise NotYet(pods.text)
            return True

        await wait_for(gone, what="the pods to go")


CREATES = {
    "namespace": ("a",),
    "configmap": ("a", "--from-literal=k=v"),
    "secret": ("generic", "a", "--from-literal=k=v"),
    "serviceaccount": ("a",),
    "service": ("clusterip", "a", "--tcp=80:8080"),
    "job": ("a", "--image=i", "--", "sh", "-c", "true"),
    "role": ("a", "--verb=get,list", "--resource=pods", "--resource-name=p"),
    "rolebinding": ("a", "--role=r", "--user=u", "--serviceaccount=default:s"),
    "clusterrole": ("a", "--verb=get", "--non-resource-url=/metrics"),
    "clusterrolebinding": ("a", "--clusterrole=c", "--group=g"),
    "priorityclass": ("a", "--value=7", "--preemption-policy=Never"),
}
"""What kubectl sends in protobuf."""


@pytest.mark.controlplane
async def test_kubectl_creates_the_same_in_protobuf_as_in_json(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    async with standing("--kubeconfig-out", str(file)):
        kubectl = Kubectl(tmp_path, file)

        async def made(kind: str) -> dict[str, Any]:
            """The object a of a kind, without what no two objects have the same."""
            got = json.loads((await kubectl.run("get", kind, "a", "-o", "json")).text)
            await kubectl.run("delete", kind, "a")
            for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "labels"):
                got["metadata"].pop(field, None)
            got.pop("status", None)
            if kind == "job":
                got["spec"].pop("selector")
                got["spec"]["template"].pop("metadata")
            if kind == "service":
                got["spec"].pop("clusterIP")
                got["spec"].pop("clusterIPs")
            found: dict[str, Any] = got
            return found

        for kind, args in CREATES.items():
            written = await kubectl.run("create", kind, *_with(args, "--dry-run=client", "-o", "json"))
            await kubectl.run("create", "-f", "-", given=written.text)
            in_json = await made(kind)
            created = await kubectl.run("create", kind, *args)
            assert " created" in created.text
            assert await made(kind) == in_json, kind
        assert (await kubectl.run("auth", "can-i", "create", "pods")).text == "yes\n"
        assert "admin" in (await kubectl.run("auth", "whoami")).text


def _with(args: tuple[str, ...], *flags: str) -> list[str]:
    """Arguments with further flags, in front of what follows "--"."""
    end = args.index("--") if "--" in args else len(args)
    return [*args[:end], *flags, *args[end:]]


@pytest.mark.controlplane
async def test_kubectl_drains_its_nodes(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    async with standing("--nodes", "1", "--kubeconfig-out", str(file)):
        kubectl = Kubectl(tmp_path, file)
        await kubectl.run("create", "job", "a", "--image=i")

        async def shown(*kinds: str, wanted: str) -> bool:
            got = " ".join((await kubectl.run("get", *kinds, "--no-headers")).text.split())
            if wanted not in got:
                raise NotYet(got)
            return True

        await wait_for(partial(shown, "pods", wanted="1/1 Running 0"), what="the pod to run")
        drained = await kubectl.run("drain", "node-0", "--force")
        assert "node/node-0 drained" in drained.text
        await wait_for(partial(shown, "pods", wanted="0/1 Pending 0"), what="the next pod to wait")
        await wait_for(partial(shown, "nodes", wanted="Ready,SchedulingDisabled"), what="the node to be cordoned")
        await kubectl.run("uncordon", "node-0")
        await wait_for(partial(shown, "pods", wanted="1/1 Running 0"), what="it to run")
