"""Discovery: the version of the server, groups, resources and schemas."""

from tests.conformance.grounds import Server, only
from tests.controlplane.api import Object
from tests.controlplane.minors import MINORS
from tests.rows import each

ALL = ["create", "delete", "get", "list", "patch", "update", "watch"]
STATUS = ["get", "patch", "update"]


async def resources(server: Server, path: str) -> dict[str, Object]:
    answer = await server.api.get(path)
    assert answer["kind"] == "APIResourceList"
    for found in answer["resources"]:
        # A collection is not deleted at once here.
        found["verbs"] = [verb for verb in found["verbs"] if verb != "deletecollection"]
    return {each["name"]: each for each in answer["resources"]}


async def test_unauthenticated_clients_get_the_version(server: Server) -> None:
    answer = await server.stranger("").get("/version")
    major, minor = server.minor.name.split(".")
    assert (answer["major"], answer["minor"]) == (major, minor)
    assert answer["gitVersion"].startswith(f"v{server.minor.name}.")


async def test_discovery_lists_groups_and_their_versions(server: Server) -> None:
    # The core has one version.
    answer = await server.api.get("/api")
    assert (answer["kind"], answer["versions"]) == ("APIVersions", ["v1"])

    # Groups are listed with their versions.
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

    # A group can be asked for.
    assert await server.api.get("/apis/batch") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "batch",
        "versions": [{"groupVersion": "batch/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "batch/v1", "version": "v1"},
    }

    # Gangs are served beside priority classes in a version of the minor.
    answer = await server.api.get("/apis/scheduling.k8s.io")
    assert [each["version"] for each in answer["versions"]] == ["v1", server.minor.scheduling_version]
    assert answer["preferredVersion"]["version"] == "v1"


GANGS: dict[str, set[str]] = {
    "1.37": {"workloads", "podgroups", "podgroups/status"},
    "1.36": {"workloads", "podgroups", "podgroups/status"},
    "1.35": {"workloads"},
}


async def test_discovery_lists_gangs_and_cluster_scoped_and_custom_resources(server: Server) -> None:
    # The resources of gangs.
    assert (await resources(server, f"/apis/{server.gangs}")).keys() == GANGS[server.minor.name]

    # Namespaces are not namespaced.
    found = (await resources(server, "/api/v1"))["namespaces"]
    assert found["namespaced"] is False
    assert found["verbs"] == ALL
    assert found["shortNames"] == ["ns"]

    # Custom resources are served like others.
    served = await resources(server, "/apis/jobset.x-k8s.io/v1alpha2")
    assert served.keys() == {"jobsets", "jobsets/status"}
    assert sorted(served["jobsets"]["verbs"]) == ALL
    assert served["jobsets"]["kind"] == "JobSet"


@each("version", sorted({minor.scheduling_version for minor in MINORS.values()}))
async def test_gangs_are_served_only_in_the_version_of_the_minor(server: Server, version: str) -> None:
    answer = await server.api.exchange("GET", f"/apis/scheduling.k8s.io/{version}/workloads")
    assert answer.status == (200 if version == server.minor.scheduling_version else 404)


@each(
    ("path", "name", "expected"),
    [
        (
            "/api/v1",
            "pods",
            {"singularName": "pod", "kind": "Pod", "verbs": ALL, "shortNames": ["po"], "categories": ["all"]},
        ),
        ("/api/v1", "configmaps", {"singularName": "configmap", "kind": "ConfigMap", "verbs": ALL}),
        ("/apis/batch/v1", "jobs", {"singularName": "job", "kind": "Job", "verbs": ALL}),
        ("/apis/batch/v1", "jobs/status", {"singularName": "", "kind": "Job", "verbs": STATUS}),
        ("/api/v1", "pods/eviction", {"kind": "Eviction", "group": "policy", "version": "v1", "verbs": ["create"]}),
        ("/apis/coordination.k8s.io/v1", "leases", {"kind": "Lease", "verbs": ALL}),
    ],
)
async def test_discovery_lists_the_verbs_of_resources(server: Server, path: str, name: str, expected: Object) -> None:
    found = (await resources(server, path))[name]
    assert found["namespaced"] is True
    assert {key: found.get(key) for key in expected} == expected


async def test_openapi_has_schemas_of_every_group_version(server: Server) -> None:
    # Openapi names every group version.
    paths = (await server.api.get("/openapi/v3"))["paths"]
    for name in ("api/v1", "apis/batch/v1", f"apis/{server.gangs}", "apis/jobset.x-k8s.io/v1alpha2"):
        assert paths[name]["serverRelativeURL"].startswith(f"/openapi/v3/{name}")

    # A schema names its kind.
    document = await server.api.get("/openapi/v3/apis/batch/v1")
    assert document["openapi"] == "3.0.0"
    schema = document["components"]["schemas"]["io.k8s.api.batch.v1.Job"]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "batch", "kind": "Job", "version": "v1"}]
    assert schema["properties"].keys() >= {"apiVersion", "kind", "metadata", "spec", "status"}

    # The schema of pods has the reference of the minor.
    schemas = (await server.api.get("/openapi/v3/api/v1"))["components"]["schemas"]
    found = {"schedulingGroup", "workloadRef"} & schemas["io.k8s.api.core.v1.PodSpec"]["properties"].keys()
    assert found == REFERENCES[server.minor.name]

    # What is not served has no schema.
    assert (await server.api.exchange("GET", "/openapi/v3/apis/nope.example.com/v1")).status == 404


REFERENCES = {"1.37": {"schedulingGroup"}, "1.36": {"schedulingGroup"}, "1.35": {"workloadRef"}}


@only("1.35")
async def test_1_35_has_no_pod_groups(server: Server) -> None:
    answer = await server.api.exchange("GET", f"/apis/{server.gangs}/podgroups")
    assert answer.status == 404


async def test_self_subject_reviews_are_answered(server: Server) -> None:
    # Who am i.
    answer = await server.api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert {"system:masters", "system:authenticated"} <= set(answer["status"]["userInfo"]["groups"])

    # What may i.
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}}
    answer = await server.api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert answer["kind"] == "SelfSubjectAccessReview"
    assert answer["status"]["allowed"] is True
