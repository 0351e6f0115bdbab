"""A cluster in which everything was installed by manifests, as a scripted API server, and what doctor says of it."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_configurations
from tests.cli.doctor.health import JOBSET_SERVICE, SERVICE, Object, others
from tests.cli.httpserver import HERE, ask, listening
from tests.cli.run import Answer
from tests.jobsets import jobset, rj

REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
SCHEDULING: Final = "/apis/scheduling.k8s.io"
KUEUE: Final = "/apis/kueue.x-k8s.io"


def ago(seconds: int) -> str:
    """So long before it is asked: a run reaches its last tests half an hour after they were collected."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def slices(service: tuple[str, str], *ready: bool) -> Object:
    metadata = {"name": "s", "namespace": service[0], "labels": {"kubernetes.io/service-name": service[1]}}
    return {"metadata": metadata, "endpoints": [{"conditions": {"ready": each}} for each in ready]}


def deployment(name: str, image: str, *, wanted: int = 1, ready: int = 1, **status: Any) -> Object:
    pod = {"containers": [{"name": "c", "image": image}]}
    counts = {"replicas": wanted, "updatedReplicas": wanted, **({"readyReplicas": ready} if ready else {})}
    return {
        "metadata": {"name": name, "generation": 2},
        "spec": {"replicas": wanted, "selector": {"matchLabels": {"app": name}}, "template": {"spec": pod}},
        "status": {"observedGeneration": 2, **counts, **status},
    }


def pod_of(name: str, image: str, waiting: str = "", message: str = "", *args: str, **status: Any) -> Object:
    """A pod that is ready, or whose container waits."""
    state = {"waiting": {"reason": waiting, "message": message}} if waiting else {"running": {}}
    conditions = [{"type": "Ready", "status": "False" if waiting or status else "True"}]
    container = {"name": "c", "image": image, "args": list(args)}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container]},
        "status": {"conditions": conditions, "containerStatuses": [{"ready": not waiting, "state": state}], **status},
    }


def of_kind(configurations: list[Object], kind: str) -> list[Object]:
    return [each for each in configurations if each["kind"] == kind]


LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/gangctl-system/leases"
QUOTAS: Final = "/api/v1/resourcequotas"
OWN_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{SERVICE[0]}/deployments"
FORBIDDEN: Final = object()
"""The answer to a user without the right."""
REVIEWS: Final = "access reviews"
"""Among the answers, what says of the attributes of an access review whether it is allowed."""


def lease(name: str) -> dict[str, Any]:
    """One that is held."""
    spec = {"holderIdentity": "gangctl-1", "leaseDurationSeconds": 3600, "renewTime": ago(5)}
    return {"metadata": {"name": name}, "spec": spec}


def installed() -> dict[str, Any]:
    """Lists by path, other answers as they are."""
    endpoint = Endpoint(service=SERVICE[1], namespace=SERVICE[0])
    own = build_configurations(WebhookSettings(endpoint, ("kube-system", SERVICE[0])), b"")
    every = [*own, *others()]
    stored = jobset("js", rj("w", 1, 2, 2), namespace=HERE, uid="u-1")
    stored["metadata"]["creationTimestamp"] = ago(300)
    stored["status"] = {"restarts": 0}
    check = {
        "metadata": {"name": "gang"},
        "spec": {"controllerName": "gangctl.dev/gang-ready"},
        "status": {"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": "m"}]},
    }
    text = (
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "integrations:\n  frameworks: [batch/job, jobset.x-k8s.io/jobset]\n"
    )
    return {
        "/version": {"gitVersion": "v1.36.3"},
        SCHEDULING: {"versions": [{"version": "v1alpha2"}]},
        f"{SCHEDULING}/v1alpha2": {"resources": [{"name": "workloads"}, {"name": "podgroups"}]},
        f"{SCHEDULING}/v1alpha2/workloads": [],
        f"{SCHEDULING}/v1alpha2/podgroups": [],
        "/apis/jobset.x-k8s.io": {"versions": [{"version": "v1alpha2"}]},
        "/apis/jobset.x-k8s.io/v1alpha2/jobsets": [stored],
        "/apis/batch/v1/jobs": [],
        "/api/v1/pods": [],
        "/api/v1/nodes": [],
        "/api/v1/namespaces": [],
        QUOTAS: [],
        "/apis/events.k8s.io/v1/events": [],
        REGISTRATION: {"resources": [{"name": "mutatingadmissionpolicies"}]},
        f"{REGISTRATION}/mutatingwebhookconfigurations": of_kind(every, "MutatingWebhookConfiguration"),
        f"{REGISTRATION}/validatingwebhookconfigurations": of_kind(every, "ValidatingWebhookConfiguration"),
        f"/apis/discovery.k8s.io/v1/namespaces/{SERVICE[0]}/endpointslices": [slices(SERVICE, True, False)],
        f"/apis/discovery.k8s.io/v1/namespaces/{JOBSET_SERVICE[0]}/endpointslices": [slices(JOBSET_SERVICE, True)],
        "/apis/apps/v1/namespaces/gangctl-system/deployments": [
            deployment("gangctl", "gangctl:0.1.0", wanted=2, ready=2)
        ],
        "/apis/apps/v1/namespaces/jobset-system/deployments": [deployment("jobset-controller", "jobset:v0.12.0")],
        "/apis/apps/v1/namespaces/kueue-system/deployments": [deployment("kueue-controller", "kueue:v0.19.2")],
        LEASES: [lease("gangctl"), lease("another-operator")],
        KUEUE: {"versions": [{"version": "v1beta2"}, {"version": "v1beta1"}]},
        f"{KUEUE}/v1beta2": {"resources": []},
        f"{KUEUE}/v1beta2/admissionchecks": [check],
        f"{KUEUE}/v1beta2/clusterqueues": [{"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {}}}],
        f"{KUEUE}/v1beta2/localqueues": [
            {"metadata": {"name": "q", "namespace": HERE}, "spec": {"clusterQueue": "cq"}},
        ],
        "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config": {
            "metadata": {"name": "kueue-manager-config"},
            "data": {"controller_manager_config.yaml": text},
        },
    }


@asynccontextmanager
async def serving(answers: dict[str, Any]) -> AsyncIterator[str]:
    """Dry runs without an answer come back as they would from JobSet and gangctl; functions are called."""

    async def answer(request: web.Request) -> web.Response:
        found = answers.get(request.path if request.method == "GET" else f"{request.method} {request.path}")
        if request.method == "POST" and found is None:
            body = await request.json()
            if body["kind"] == "SelfSubjectAccessReview":
                allowed = answers.get(REVIEWS, bool)(body["spec"]["resourceAttributes"])
                return web.json_response({**body, "status": {"allowed": allowed}}, status=201)
            return web.json_response(admitted(body, request), status=201)
        if callable(found):
            found = await found()
        if isinstance(found, web.Response):
            return found
        if found is FORBIDDEN:
            status = {"kind": "Status", "reason": "Forbidden", "message": f"no right to {request.path}", "code": 403}
            return web.json_response(status, status=403)
        if found is None:
            status = {"kind": "Status", "reason": "NotFound", "message": f"no {request.path}", "code": 404}
            return web.json_response(status, status=404)
        return web.json_response({"items": found, "metadata": {}} if isinstance(found, list) else found)

    async with listening(answer) as url:
        yield url


def admitted(body: Object, request: web.Request) -> Object:
    """What a server answers to dry runs."""
    assert request.query["dryRun"] == "All"
    stored = copy.deepcopy(body)
    if body["kind"] == "Job" and "annotations" in body["metadata"]:
        stored["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "gangctl-proof-00000000-0000-0-0"}
    for item in stored["spec"].get("replicatedJobs", ()):
        item["template"]["metadata"] = {"annotations": {"gangctl.dev/gang-ref": json.dumps({"v": 1})}}
        item["template"]["spec"]["completionMode"] = "Indexed"
    return stored


async def doctor(tmp_path: Path, answers: dict[str, Any], *flags: str) -> Answer:
    async with serving(answers) as url:
        return await ask(tmp_path, url, "doctor", "-o", "json", *flags)


def found(answer: Answer, check: str) -> tuple[str, list[str]]:
    assert answer.code in {0, 1}, answer.err
    (one,) = [each for each in answer.json["checks"] if each["id"] == check]
    return one["verdict"], one["evidence"]


NOT_READY: Final = {
    f"/apis/discovery.k8s.io/v1/namespaces/{SERVICE[0]}/endpointslices": [slices(SERVICE, False)],
}
