"""``gangctl doctor`` against servers: exit codes, documents, missing rights, and that it writes nothing unasked."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from gangctl.cli.completion import candidates
from gangctl.cli.doctor.canary import LABEL
from gangctl.cli.doctor.check import Area
from gangctl.cli.doctor.checks import CHECKS
from tests.cli.conftest import Golden
from tests.cli.gangs import dump
from tests.cli.gangs.dump import NAMESPACE, Object
from tests.cli.gangs.place import USER, Place, place
from tests.cli.httpserver import HERE, ask, kubeconfig, listening
from tests.cli.publishedschemas import schema_of
from tests.cli.run import BIN, Answer, gangctl, process
from tests.cli.schema import violations
from tests.controlplane.wait import NotYet, wait_for

ROOT_OF_DOCS: Final = Path(__file__).parents[3] / "docs"
CANARY: Final = [check.id for check in CHECKS if check.area is Area.CANARY]
USUAL: Final = [check.id for check in CHECKS if check.area is not Area.CANARY]
ROOT: Final = "/apis/scheduling.k8s.io"
OPEN: Final[Mapping[str, Any]] = {
    "/version": {"gitVersion": "v1.37.1"},
    ROOT: {"versions": [{"version": "v1beta1"}]},
    f"{ROOT}/v1beta1": {"resources": [{"name": "workloads"}, {"name": "podgroups"}]},
    "/apis/jobset.x-k8s.io": {"versions": [{"version": "v1alpha2"}]},
    "/openapi/v3/api/v1": {
        "components": {"schemas": {"io.k8s.api.core.v1.PodSpec": {"properties": {"schedulingGroup": {}}}}}
    },
}
"""The requests that every authenticated user may send."""
PLURAL: Final = re.compile(r"/apis?/(?:([\w.-]+)/)?v\w+/(?:namespaces/([\w-]+)/)?([\w-]+)")


def forbidden(request: web.Request) -> web.Response:
    """In the words of RBAC."""
    found = PLURAL.match(request.path)
    assert found, request.path
    group, namespace, plural = found[1] or "", found[2], found[3]
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    verb = "create" if request.method == "POST" else "list"
    message = f'{plural} is forbidden: User "u" cannot {verb} resource "{plural}" in API group "{group}" {where}'
    return web.json_response({"kind": "Status", "reason": "Forbidden", "message": message, "code": 403}, status=403)


async def stranger(request: web.Request) -> web.Response:
    """A server on which the asking person may do nothing but discover."""
    if request.method == "GET" and request.path in OPEN:
        return web.json_response(OPEN[request.path])
    if request.path.startswith(("/openapi", "/apis/kueue")):
        return web.json_response({"kind": "Status", "reason": "NotFound", "message": "no", "code": 404}, status=404)
    return forbidden(request)


def verdicts(answer: Answer) -> dict[str, str]:
    return {each["id"]: each["verdict"] for each in answer.json["checks"]}


async def test_without_any_rights_the_missing_ones_are_reported(tmp_path: Path) -> None:
    async with listening(stranger) as url:
        answer = await ask(tmp_path, url, "doctor", "-o", "json")
    assert answer.code == 0, answer.err
    found = verdicts(answer)
    assert list(found) == USUAL
    assert {check for check, verdict in found.items() if verdict == "ok"} == {
        *("kubernetes-version", "scheduling-api", "jobset-api", "kueue-api", "kueue-configuration", "kueue-checks"),
        "kueue-queues",
    }
    assert set(found.values()) == {"ok", "unknown"}
    reported = {each["id"]: each["message"] for each in answer.json["checks"]}
    assert reported["gangctl-webhooks"].startswith("you may not list mutatingwebhookconfigurations")
    assert reported["admission"] == f"you may not create jobsets.jobset.x-k8s.io in namespace {HERE}"
    assert reported["rights"] == "you may not create selfsubjectaccessreviews.authorization.k8s.io cluster-wide"
    assert "dry run" in reported["pod-field"]


async def test_without_jobsets_who_may_read_one_namespace_has_a_report(tmp_path: Path) -> None:
    async def without_jobsets(request: web.Request) -> web.Response:
        if request.path.endswith(f"/namespaces/{HERE}/jobsets"):
            return web.json_response({"kind": "Status", "reason": "NotFound", "message": "no", "code": 404}, status=404)
        return await stranger(request)

    async with listening(without_jobsets) as url:
        answer = await ask(tmp_path, url, "doctor", "--only", "priorities", "-o", "json")
    assert (answer.code, verdicts(answer)) == (0, {"priorities": "unknown"})
    assert "does not serve JobSets" in answer.json["checks"][0]["message"]


async def test_a_server_that_drops_the_reference_fails(tmp_path: Path) -> None:
    async def drops(request: web.Request) -> web.Response:
        if request.method == "POST" and request.path.endswith("/jobs"):
            assert request.query["dryRun"] == "All"
            job = await request.json()
            job["spec"]["template"]["spec"].pop("schedulingGroup")
            return web.json_response(job, status=201)
        return await stranger(request)

    async with listening(drops) as url:
        answer = await ask(tmp_path, url, "doctor", "--only", "pod-field", "--only", "scheduling-api", "-o", "json")
        shown = await ask(tmp_path, url, "doctor", "--only", "pod-field")
    assert (answer.code, verdicts(answer)) == (1, {"scheduling-api": "ok", "pod-field": "failed"})
    assert "FAILED   pod-field: " in shown.out
    assert "What to do: enable the feature gate GenericWorkload" in shown.out


@pytest.mark.parametrize("served", [["v1"], ["v1", "v1alpha3"]])
async def test_a_server_with_the_reference_but_without_groups_fails(served: list[str], tmp_path: Path) -> None:
    async def keeps(request: web.Request) -> web.Response:
        if request.method == "POST" and request.path.endswith("/jobs"):
            return web.json_response(await request.json(), status=201)
        if request.path == ROOT:
            return web.json_response({"versions": [{"version": version} for version in served]})
        if request.path == f"{ROOT}/v1alpha3":
            return web.json_response({"resources": [{"name": "workloads"}, {"name": "podgroups"}]})
        if request.path == f"{ROOT}/v1":
            return web.json_response({"resources": [{"name": "priorityclasses"}]})
        return await stranger(request)

    async with listening(keeps) as url:
        answer = await ask(tmp_path, url, "doctor", "--only", "pod-field", "--only", "scheduling-api", "-o", "json")
    assert (answer.code, set(verdicts(answer).values())) == (1, {"failed"})


@pytest.mark.parametrize("first", ["", "more"])
async def test_objects_stored_by_an_earlier_minor_are_reported(first: str, tmp_path: Path) -> None:
    async def stale(request: web.Request) -> web.Response:
        if request.path == f"{ROOT}/v1beta1/workloads":
            if first != request.query.get("continue", ""):
                return web.json_response({"items": [], "metadata": {"continue": first}})
            text = 'no kind "Workload" is registered for version "scheduling.k8s.io/v1alpha2" in scheme'
            return web.json_response({"kind": "Status", "message": text, "code": 500}, status=500)
        if request.path == f"{ROOT}/v1beta1/podgroups":
            return web.json_response({"items": []})
        return await stranger(request)

    async with listening(stale) as url:
        answer = await ask(tmp_path, url, "doctor", "--only", "stored-objects", "-o", "json")
    assert answer.code == 1
    assert "etcdctl del --prefix /registry/workloads/" in answer.json["checks"][0]["command"]


def test_schema_is_published(golden: Golden) -> None:
    golden(ROOT_OF_DOCS / "doctor.schema.json", json.dumps(schema_of("doctor"), indent=2) + "\n")


class TestUsage:
    def test_an_unreachable_server_is_exit_code_3(self, tmp_path: Path) -> None:
        answer = process("doctor", "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:9"))
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.startswith("error: ")
        assert "Traceback" not in answer.err

    @pytest.mark.parametrize(
        "flags",
        [
            ("--only", "nonsense"),
            ("--only", CANARY[0]),
            ("--timeout", "0"),
            ("--timeout", "nan"),
            ("-n", "No_Name"),
            ("--kubeconfig", "/nonexistent"),
        ],
    )
    def test_bad_usage_is_exit_code_2(self, flags: tuple[str, ...]) -> None:
        answer = process("doctor", *flags)
        assert (answer.code, answer.out) == (2, "")

    def test_names_of_checks_are_completed(self) -> None:
        assert candidates(["doctor", "--only", ""])[0] == [check.id for check in CHECKS]
        assert candidates(["doctor", "--only", "pod"]) == (["pod-field"], 4)

    def test_help_has_examples(self) -> None:
        assert "gangctl doctor --canary --yes" in gangctl("doctor", "--help").out


class TestSandbox:
    """A simulated cluster without gangctl, on which gangs run and wait."""

    async def test_the_report_is_one_document_of_its_schema(self, tmp_path: Path) -> None:
        async with home(tmp_path, dump.objects()) as here:
            answer = await here.ask("doctor", "-o", "json")
            stream = await here.ask("doctor", "-o", "yaml")
            assert writes(here) == []
        assert (answer.code, stream.code) == (1, 1)
        (document,) = stream.documents
        assert [each["id"] for each in document["checks"]] == USUAL
        assert violations(answer.json, schema_of("doctor")) == []
        found = verdicts(answer)
        assert (found["gangctl-webhooks"], found["admission"], found["pod-field"]) == ("failed", "failed", "ok")

    async def test_a_canary_without_gangctl_fails_and_is_deleted(self, tmp_path: Path) -> None:
        async with home(tmp_path) as here:
            answer = await here.ask("doctor", "--canary", "--timeout", "1", "-o", "json", *only(CANARY))
            assert canaries(here) == []
        found = verdicts(answer)
        assert (answer.code, list(found)) == (1, CANARY)
        assert (found["canary-admission"], found["canary-cleanup"]) == ("failed", "ok")

    async def test_interrupted_it_leaves_nothing_behind(self, tmp_path: Path) -> None:
        async with home(tmp_path) as here, here.running("doctor", "--canary", "--timeout", "60") as doctor:

            async def there() -> list[str]:
                if len(found := canaries(here)) < 2:
                    raise NotYet("no canary")
                return found

            await wait_for(there, "the canary")
            doctor.child.send_signal(signal.SIGINT)
            answer = await doctor.end()
            assert canaries(here) == []
        assert (answer.code, answer.out) == (130, "")
        assert "Traceback" not in answer.err

    async def test_rights_for_the_canary_are_named(self, tmp_path: Path) -> None:
        async with listening(stranger) as url:
            answer = await ask(tmp_path, url, "doctor", "--canary", "-o", "json", *only(CANARY))
            strict = await ask(tmp_path, url, "doctor", "--canary", "-o", "json", "--strict", *only(CANARY))
        assert (answer.code, set(verdicts(answer).values())) == (0, {"unknown"})
        assert (strict.code, verdicts(strict)) == (1, verdicts(answer))
        reported = {each["message"] for each in answer.json["checks"]}
        assert reported == {f"you may not create jobsets.jobset.x-k8s.io in namespace {HERE}"}

    async def test_nothing_is_created_if_the_user_declines(self, tmp_path: Path) -> None:
        async with home(tmp_path) as here:
            code = await asyncio.to_thread(refuse, here)
            assert canaries(here) == []
            assert writes(here) == []
        assert code == 130


@asynccontextmanager
async def home(directory: Path, found: Sequence[Object] = ()) -> AsyncIterator[Place]:
    """A server that has the namespace of the context."""
    async with place(directory, found) as here:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "uid": "u"}}
        here.sandbox.api.store.put("namespaces", ("", NAMESPACE), namespace)
        yield here


def only(checks: list[str]) -> list[str]:
    """Flags that choose these checks."""
    return [word for check in checks for word in ("--only", check)]


def canaries(here: Place) -> list[str]:
    """JobSets of the doctor that exist."""
    found = [each.obj for each in here.sandbox.api.store.items("jobsets.jobset.x-k8s.io", NAMESPACE)]
    return [each["metadata"]["name"] for each in found if LABEL in (each["metadata"].get("labels") or {})]


def writes(here: Place) -> list[str]:
    """What was written; an access review is a question."""
    found = [each.resource for each in here.sandbox.audit.writes_by(USER)]
    return [each for each in found if each != "selfsubjectaccessreviews.authorization.k8s.io"]


def refuse(here: Place) -> int:
    """The exit code of a doctor that a user declines to continue."""
    person, terminal = os.openpty()
    arguments = [str(BIN / "gangctl"), "doctor", "--canary", *only(CANARY), "--kubeconfig", str(here.kubeconfig)]
    with subprocess.Popen(
        arguments, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"LANG": "C.UTF-8"}
    ) as child:
        os.write(person, b"n\n")
        _, err = child.communicate(timeout=300)
    os.close(person)
    os.close(terminal)
    assert f"are created in namespace {NAMESPACE}, and deleted" in err.decode()
    return child.returncode
