"""What a server says it serves: releases, groups, resources, schemas."""

import pytest

from tests.conformance.grounds import Server, only
from tests.controlplane.api import Object
from tests.controlplane.minors import MINORS

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
ALL = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
STATUS = ["get", "patch", "update"]


async def resources(server: Server, path: str) -> dict[str, Object]:
    answer = await server.api.get(path)
    assert answer["kind"] == "APIResourceList"
    return {each["name"]: each for each in answer["resources"]}


async def test_version_is_told_to_everybody(server: Server) -> None:
    answer = await server.stranger("").get("/version")
    major, minor = server.minor.name.split(".")
    assert (answer["major"], answer["minor"]) == (major, minor)
    assert answer["gitVersion"].startswith(f"v{server.minor.name}.")


async def test_the_core_has_one_version(server: Server) -> None:
    answer = await server.api.get("/api")
    assert (answer["kind"], answer["versions"]) == ("APIVersions", ["v1"])


async def test_groups_are_listed_with_their_versions(server: Server) -> None:
    answer = await server.api.get("/apis")
    assert (answer["kind"], answer["apiVersion"]) == ("APIGroupList", "v1")
    groups = {group["name"]: group for group in answer["groups"]}
    assert groups["batch"]["versions"] == [{"groupVersion": "batch/v1", "version": "v1"}]
    assert groups["batch"]["preferredVersion"] == {"groupVersion": "batch/v1", "version": "v1"}
    assert groups.keys() >= {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "coordination.k8s.io",
        "events.k8s.io",
        "jobset.x-k8s.io",
        "scheduling.k8s.io",
    }


async def test_a_group_can_be_asked_for(server: Server) -> None:
    assert await server.api.get("/apis/batch") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "batch",
        "versions": [{"groupVersion": "batch/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "batch/v1", "version": "v1"},
    }


async def test_gangs_are_served_beside_priority_classes_in_a_version_of_the_minor(server: Server) -> None:
    answer = await server.api.get("/apis/scheduling.k8s.io")
    assert [each["version"] for each in answer["versions"]] == ["v1", server.minor.scheduling_version]
    assert answer["preferredVersion"]["version"] == "v1"


GANGS: dict[str, set[str]] = {
    "1.37": {"workloads", "podgroups", "podgroups/status"},
    "1.36": {"workloads", "podgroups", "podgroups/status"},
    "1.35": {"workloads"},
}


async def test_the_resources_of_gangs(server: Server) -> None:
    assert (await resources(server, f"/apis/{server.gangs}")).keys() == GANGS[server.minor.name]


@pytest.mark.parametrize("version", sorted({minor.scheduling_version for minor in MINORS.values()}))
async def test_no_gangs_in_the_versions_of_other_minors(server: Server, version: str) -> None:
    answer = await server.api.exchange("GET", f"/apis/scheduling.k8s.io/{version}/workloads")
    assert answer.status == (200 if version == server.minor.scheduling_version else 404)


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        pytest.param(
            "/api/v1",
            "pods",
            {"singularName": "pod", "kind": "Pod", "verbs": ALL, "shortNames": ["po"], "categories": ["all"]},
            id="pods",
        ),
        pytest.param(
            "/api/v1", "configmaps", {"singularName": "configmap", "kind": "ConfigMap", "verbs": ALL}, id="configmaps"
        ),
        pytest.param("/apis/batch/v1", "jobs", {"singularName": "job", "kind": "Job", "verbs": ALL}, id="jobs"),
        pytest.param(
            "/apis/batch/v1", "jobs/status", {"singularName": "", "kind": "Job", "verbs": STATUS}, id="status"
        ),
        pytest.param("/api/v1", "pods/binding", {"kind": "Binding", "verbs": ["create"]}, id="binding"),
        pytest.param(
            "/api/v1",
            "pods/eviction",
            {"kind": "Eviction", "group": "policy", "version": "v1", "verbs": ["create"]},
            id="eviction",
        ),
        pytest.param("/apis/coordination.k8s.io/v1", "leases", {"kind": "Lease", "verbs": ALL}, id="leases"),
    ],
)
async def test_resources_say_their_verbs(server: Server, path: str, name: str, expected: Object) -> None:
    found = (await resources(server, path))[name]
    assert found["namespaced"] is True
    assert {key: found.get(key) for key in expected} == expected


async def test_namespaces_are_not_namespaced(server: Server) -> None:
    found = (await resources(server, "/api/v1"))["namespaces"]
    assert found["namespaced"] is False
    assert found["verbs"] == sorted(set(ALL) - {"deletecollection"})
    assert found["shortNames"] == ["ns"]


async def test_custom_resources_are_served_like_others(server: Server) -> None:
    found = await resources(server, "/apis/jobset.x-k8s.io/v1alpha2")
    assert found.keys() == {"jobsets", "jobsets/status"}
    assert sorted(found["jobsets"]["verbs"]) == ALL
    assert found["jobsets"]["kind"] == "JobSet"


async def test_discovery_may_be_aggregated(server: Server) -> None:
    answer = await server.api.exchange("GET", "/apis", headers={"Accept": AGGREGATED})
    assert answer.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    body = answer.body
    assert (body["kind"], body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    groups = {item["metadata"]["name"]: item for item in body["items"]}
    (version,) = groups["batch"]["versions"]
    assert version["version"] == "v1"
    (jobs,) = [each for each in version["resources"] if each["resource"] == "jobs"]
    assert jobs["responseKind"]["kind"] == "Job"
    assert (jobs["scope"], jobs["singularResource"], jobs["verbs"]) == ("Namespaced", "job", ALL)
    (status,) = jobs["subresources"]
    assert (status["subresource"], status["verbs"]) == ("status", STATUS)


async def test_the_core_may_be_aggregated(server: Server) -> None:
    body = (await server.api.exchange("GET", "/api", headers={"Accept": AGGREGATED})).body
    (item,) = body["items"]
    (version,) = item["versions"]
    assert version["version"] == "v1"
    assert {"pods", "configmaps"} <= {each["resource"] for each in version["resources"]}


async def test_openapi_names_every_group_version(server: Server) -> None:
    paths = (await server.api.get("/openapi/v3"))["paths"]
    for name in ("api/v1", "apis/batch/v1", f"apis/{server.gangs}", "apis/jobset.x-k8s.io/v1alpha2"):
        assert paths[name]["serverRelativeURL"].startswith(f"/openapi/v3/{name}")


async def test_a_schema_names_its_kind(server: Server) -> None:
    document = await server.api.get("/openapi/v3/apis/batch/v1")
    assert document["openapi"] == "3.0.0"
    schema = document["components"]["schemas"]["io.k8s.api.batch.v1.Job"]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "batch", "kind": "Job", "version": "v1"}]
    assert schema["properties"].keys() >= {"apiVersion", "kind", "metadata", "spec", "status"}


REFERENCES = {"1.37": {"schedulingGroup"}, "1.36": {"schedulingGroup"}, "1.35": {"workloadRef"}}


async def test_the_schema_of_pods_has_the_reference_of_the_minor(server: Server) -> None:
    schemas = (await server.api.get("/openapi/v3/api/v1"))["components"]["schemas"]
    found = {"schedulingGroup", "workloadRef"} & schemas["io.k8s.api.core.v1.PodSpec"]["properties"].keys()
    assert found == REFERENCES[server.minor.name]


async def test_what_is_not_served_has_no_schema(server: Server) -> None:
    assert (await server.api.exchange("GET", "/openapi/v3/apis/nope.example.com/v1")).status == 404


@only("1.35")
async def test_1_35_has_no_pod_groups(server: Server) -> None:
    answer = await server.api.exchange("GET", f"/apis/{server.gangs}/podgroups")
    assert answer.status == 404


async def test_who_am_i(server: Server) -> None:
    answer = await server.api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert {"system:masters", "system:authenticated"} <= set(answer["status"]["userInfo"]["groups"])


async def test_what_may_i(server: Server) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}}
    answer = await server.api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert answer["kind"] == "SelfSubjectAccessReview"
    assert answer["status"]["allowed"] is True
