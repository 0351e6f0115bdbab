"""Asking a cluster; and the proof that an offline preview is what a cluster then shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from gangctl.api.meta import API_VERSION
from gangctl.api.scheduling import Generation, generation_of_minor
from gangctl.sandbox.discovery import document
from gangctl.sandbox.registry import Registry
from tests.cli.httpserver import listening
from tests.cli.manifests import EXAMPLES, PLACEHOLDER, gang, write
from tests.cli.run import Answer, ask, process
from tests.cli.test_translate import rich_jobset
from tests.controlplane.api import Object
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS, Cluster
from tests.pathways.samples import pathways_job


async def in_a_thread(*args: str) -> Answer:
    return await asyncio.to_thread(process, *args)


def kubeconfig(directory: Path, server: str) -> str:
    file = directory / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("here", "there")],
    }
    file.write_text(yaml.safe_dump(config))
    return str(file)


def refused(code: int, reason: str) -> web.Response:
    message = f"it is {reason.lower()}"
    return web.json_response({"kind": "Status", "reason": reason, "message": message, "code": code}, status=code)


def served(*versions: str, policies: Sequence[Object] | None) -> dict[str, Object]:
    """Answers to GET by path."""
    root = "/apis/scheduling.k8s.io"
    answers: dict[str, Object] = {root: {"kind": "APIGroup", "versions": [{"version": v} for v in versions]}}
    answers[f"/openapi/v3{root}/v1"] = document(Registry("1.38"), "scheduling.k8s.io", "v1", lambda _: None) or {}
    for version in versions:
        plurals = ("priorityclasses",) if version == "v1" and len(versions) > 1 else ("workloads", "podgroups")
        resources = [{"name": plural} for plural in plurals]
        answers[f"{root}/{version}"] = {"kind": "APIResourceList", "resources": resources}
    limiting = ("/api/v1/nodes", "/api/v1/namespaces/default/limitranges", "/apis/node.k8s.io/v1/runtimeclasses")
    answers |= {path: {"items": [], "metadata": {}} for path in limiting}
    if policies is not None:
        answers[f"/apis/{API_VERSION}"] = {"kind": "APIResourceList", "resources": [{"name": "gangpolicies"}]}
        answers[f"/apis/{API_VERSION}/gangpolicies"] = {"items": list(policies), "metadata": {}}
    return answers


@asynccontextmanager
async def serving(
    *versions: str,
    keeps: bool = True,
    allows: bool = True,
    policies: Sequence[Object] | None = None,
    home: str = "default",
    refusal: tuple[int, str] = (403, "Forbidden"),
) -> AsyncIterator[str]:
    """An API server with discovery of ``scheduling.k8s.io``, and with dry runs of Jobs and Workloads if it ``allows``.

    It drops the topology of gangs. Beside other versions, v1 has PriorityClass alone. GangPolicies may be read if it
    ``allows``, and are not served where ``policies`` is None. Dry runs are made in namespace ``home``.
    """
    answers = served(*versions, policies=policies)

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            assert request.path.split("/")[-3:-1] == ["namespaces", home]
            return await create(request)
        if request.path.endswith("/gangpolicies") and not allows:
            return refused(403, "Forbidden")
        found = answers.get(request.path)
        return web.json_response(found) if found is not None else refused(404, "NotFound")

    async def create(request: web.Request) -> web.Response:
        assert request.query["dryRun"] == "All"
        if not allows:
            return refused(*refusal)
        body = await request.json()
        if body["kind"] == "Workload":
            for template in body["spec"]["podGroupTemplates"]:
                del template["schedulingConstraints"]
        elif not keeps:
            body["spec"]["template"]["spec"] = {}
        return web.json_response(body, status=201)

    async with listening(answer) as url:
        yield url


class TestDiscovery:
    @pytest.mark.parametrize("generation", Generation)
    async def test_the_api_version_of_the_cluster_is_used(self, generation: Generation, tmp_path: Path) -> None:
        async with serving(*dict.fromkeys(("v1", generation.value))) as url:
            file, config = write(tmp_path / "a.yaml", gang()), kubeconfig(tmp_path, url)
            answer = await in_a_thread("plan", "-f", file, "--kubeconfig", config, "-o", "json")
            assert (answer.code, answer.err) == (0, PLACEHOLDER)
            assert answer.json["apiGeneration"] == generation.api_version
            asked = await in_a_thread("plan", "-f", file, "--kubeconfig", config, "--kube", "1.35", "-o", "json")
            assert asked.json["kubernetes"] == "1.35"

    @pytest.mark.parametrize("command", ["plan", "translate"])
    async def test_a_new_jobset_has_the_defaults_of_the_policies(self, command: str, tmp_path: Path) -> None:
        spec = {"defaults": {"gangMode": "Gang", "queue": "q"}}
        policy = {"metadata": {"name": "teams", "generation": 1}, "spec": spec}
        new, stored = (jobset("js", rj("w", 1, 2, 2), uid=uid) for uid in ("", "u-1"))
        del new["metadata"]["namespace"]
        async with serving("v1beta1", policies=[policy]) as url:
            config = kubeconfig(tmp_path, url)
            file, there = write(tmp_path / "a.yaml", new), write(tmp_path / "b.yaml", stored)
            answer = await ask(command, "-f", file, "--kubeconfig", config, "-o", "json")
            offline = await ask(command, "-f", file, "--kubeconfig", config, "--kube", "1.37", "-o", "json")
            exists = await ask(command, "-f", there, "--kubeconfig", config, "-o", "json")
        assert answer.code == 0, answer.err
        assert 'note: js: metadata.annotations[gangctl.dev/gang-mode]: "Gang", default of teams\n' in answer.err
        assert "js-00000000-0000-0" in answer.out
        assert '"namespace": "default"' not in answer.out
        for other in (offline, exists):
            assert "default of teams" not in other.err
            assert answer.out != other.out

    async def test_without_the_right_to_read_policies_a_note_is_printed(self, tmp_path: Path) -> None:
        async with serving("v1beta1", allows=False, policies=[]) as url:
            file = write(tmp_path / "a.yaml", gang())
            answer = await ask("plan", "-f", file, "--kubeconfig", kubeconfig(tmp_path, url))
        assert answer.code == 0
        assert "note: defaults of GangPolicies are not known: gangpolicies may not be read\n" in answer.err

    async def test_a_cluster_without_the_scheduling_api_is_an_error(self, tmp_path: Path) -> None:
        async with serving() as url:
            answer = await self.plan(tmp_path, url)
        assert (answer.code, answer.out) == (3, "")
        assert "error: the cluster serves no Workloads" in answer.err

    async def test_a_cluster_that_drops_the_reference_is_an_error(self, tmp_path: Path) -> None:
        async with serving("v1beta1", keeps=False) as url:
            answer = await self.plan(tmp_path, url)
        assert (answer.code, answer.out) == (3, "")
        assert "drops spec.schedulingGroup" in answer.err

    @pytest.mark.parametrize("refusal", [(403, "Forbidden"), (404, "NotFound"), (422, "Invalid")])
    async def test_a_proof_that_is_refused_is_a_note(self, refusal: tuple[int, str], tmp_path: Path) -> None:
        """The right is missing, or there is no such namespace, or a policy of the cluster refuses the Job."""
        async with serving("v1beta1", allows=False, refusal=refusal) as url:
            answer = await self.plan(tmp_path, url)
        assert answer.code == 0
        assert "not proved" in answer.err
        assert "namespace default" in answer.err

    @pytest.mark.parametrize("command", ["plan", "pathways"])
    async def test_the_proof_is_made_in_the_namespace_that_is_named(self, command: str, tmp_path: Path) -> None:
        raw = gang() if command == "plan" else pathways_job()
        del raw["metadata"]["namespace"]
        words = ["plan"] if command == "plan" else ["pathways", "render"]
        async with serving("v1beta1", home="team") as url:
            file, config = write(tmp_path / "a.yaml", raw), kubeconfig(tmp_path, url)
            answer = await ask(*words, "-n", "team", "-f", file, "--kubeconfig", config)
        assert answer.code == 0, answer.err

    async def test_an_option_that_the_cluster_drops_is_a_warning(self, tmp_path: Path) -> None:
        async with serving("v1beta1") as url:
            answer = await self.plan(tmp_path, url, options='{"topologyKey": "rack"}')
        assert answer.code == 0
        assert "GangOptionDropped: The gang starts without" in answer.out + answer.err

    async def plan(self, directory: Path, url: str, **changes: str) -> Answer:
        file = write(directory / "a.yaml", gang(**changes))
        return await ask("plan", "-f", file, "--kubeconfig", kubeconfig(directory, url))

    async def test_an_unreachable_server_is_exit_code_3(self, tmp_path: Path) -> None:
        file, config = write(tmp_path / "a.yaml", gang()), kubeconfig(tmp_path, "http://127.0.0.1:9")
        answer = await in_a_thread("translate", "-f", file, "--kubeconfig", config, "--context", "there")
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.startswith("error: ")
        assert "Traceback" not in answer.err

    @pytest.mark.parametrize("args", [("--kubeconfig", "/nonexistent"), ("--context", "nowhere")])
    def test_a_missing_kubeconfig_is_exit_code_2(self, args: tuple[str, str], tmp_path: Path) -> None:
        answer = process("plan", "-f", write(tmp_path / "a.yaml", gang()), *args)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("error: ")


def essence(raw: Object) -> Object:
    """What was asked for, without what a server adds."""
    meta = raw["metadata"]
    kept = {key: meta.get(key) for key in ("name", "namespace", "labels", "annotations", "ownerReferences")}
    return {"kind": raw["kind"], "apiVersion": raw["apiVersion"], "metadata": kept}


def without_defaults(wanted: Any, stored: Any) -> Any:
    """``stored`` without fields that ``wanted`` does not have."""
    if isinstance(wanted, dict) and isinstance(stored, dict):
        return {key: without_defaults(wanted[key], stored.get(key)) for key in wanted}
    if isinstance(wanted, list) and isinstance(stored, list) and len(wanted) == len(stored):
        return [without_defaults(w, s) for w, s in zip(wanted, stored, strict=True)]
    return stored


async def stored_objects(cluster: Cluster, count: int) -> list[Object]:
    """Everything that ``translate --jobs`` is about, once it is all there."""

    async def all_there() -> list[Object]:
        gangs = await cluster.gangs()
        api_version = f"scheduling.k8s.io/{cluster.version}"
        found = [{**o, "kind": "Workload", "apiVersion": api_version} for o in gangs.workloads.values()]
        found += [{**o, "kind": "PodGroup", "apiVersion": api_version} for o in gangs.groups.values()]
        found += [{**o, "kind": "Job", "apiVersion": "batch/v1"} for o in (await cluster.jobs()).values()]
        if len(found) != count:
            raise NotYet(f"{len(found)} of {count} objects")
        return found

    return await wait_for(all_there, what=f"{count} objects")


PREVIEWED: dict[str, Object] = {
    "rich": rich_jobset(),
    **{path.stem: yaml.safe_load(path.read_text()) for path in EXAMPLES if path.stem[:2] in {"01", "02", "04", "07"}},
}


@pytest.mark.controlplane
@pytest.mark.parametrize("name", PREVIEWED)
async def test_the_cluster_shows_what_was_previewed(name: str, cluster: Cluster, tmp_path: Path) -> None:
    raw = {**PREVIEWED[name], "metadata": {**PREVIEWED[name]["metadata"], "namespace": cluster.namespace}}
    raw["metadata"].pop("uid", None)
    created = await cluster.create_jobset(raw)
    file, uid = write(tmp_path / "a.json", raw), created["metadata"]["uid"]
    config = str(cluster.plane.kubeconfig)
    answer = await in_a_thread("translate", "-f", file, "--uid", uid, "--jobs", "--kubeconfig", config, "-o", "json")
    assert answer.code == 0, answer.err
    previewed = {(o["kind"], o["metadata"]["name"]): o for o in answer.json["items"]}
    stored = {(o["kind"], o["metadata"]["name"]): o for o in await stored_objects(cluster, len(previewed))}
    assert stored.keys() == previewed.keys()
    for key, object_ in previewed.items():
        if key[0] == "Job":
            assert essence(stored[key]) == essence(object_)
        assert without_defaults(object_, stored[key]) == object_


def without_constraints(raw: Object) -> Object:
    """The example without options that Kubernetes 1.35 cannot express."""
    notes = raw["metadata"].get("annotations", {})
    kept = {key: value for key, value in notes.items() if key != "gangctl.dev/gang-options"}
    return {**raw, "metadata": {**raw["metadata"], "annotations": kept}}


@pytest.mark.controlplane
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_accepted_by_real_servers(example: Path, cluster: Cluster) -> None:
    raw = yaml.safe_load(example.read_text())
    generation = generation_of_minor(cluster.minor)
    assert generation is not None
    if not generation.capabilities.constraints:
        raw = without_constraints(raw)
    raw["metadata"]["namespace"] = cluster.namespace
    path = cluster.path(JOBSETS, "jobsets")
    created = asyncio.run(cluster.api.create(path, raw, dryRun="All", fieldValidation="Strict"))
    assert created["spec"]["replicatedJobs"]
