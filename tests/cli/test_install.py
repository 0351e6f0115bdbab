"""``gangctl install``: what is printed, what is refused, and the notes about a cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from gangctl.cli.install.components import NAMES
from gangctl.cli.install.rendering import POLICY_KINDS, InstallationOptions, render
from gangctl.runtime.shards import lease_names
from tests.cli.httpserver import listening
from tests.cli.run import Answer, ask, fine, gangctl
from tests.cli.test_live import kubeconfig
from tests.controlplane.api import Object
from tests.rows import each

WEBHOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
ALL = tuple(word for name in NAMES for word in ("--component", name))


GIVEN = "registry.example/gangctl:0.1.0"
IMAGE = ("--image", GIVEN)
CHOICE = InstallationOptions(image=GIVEN)


def installed(*flags: str) -> Answer:
    """What is printed for an image."""
    return fine("install", *IMAGE, *flags)


def kinds(answer: Answer) -> list[str]:
    return [each["kind"] for each in answer.documents]


def container(objects: list[Object]) -> Object:
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(found)


class TestObjects:
    def test_yaml_and_json_are_the_same_objects(self) -> None:
        objects = render(CHOICE)
        assert installed().documents == objects
        assert installed("-o", "json").json["items"] == objects
        assert len(installed("-o", "name").out.splitlines()) == len(objects)

    def test_a_complete_installation_gives_no_notes(self) -> None:
        assert installed(*ALL).err == ""

    def test_objects_are_ordered_by_dependency_with_webhooks_last(self) -> None:
        found = kinds(installed(*ALL))
        order = ["Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
        order += ["Service", "Deployment", "MutatingWebhookConfiguration"]
        assert [kind for kind in dict.fromkeys(found) if kind in order] == order
        assert set(found[-4:]) == WEBHOOKS

    def test_chosen_flags_are_in_the_deployment(self) -> None:
        image = "registry.example:5000/gangctl@sha256:" + "0" * 64
        answer = fine("install", "--image", image, "--replicas", "5", "--log-level", "debug", "--flag", "kueue=off")
        found = container(answer.documents)
        assert found["image"] == image
        assert {"--log-level=debug", "--kueue=off"} <= {*found["args"]}
        assert [each["spec"]["replicas"] for each in answer.documents if each["kind"] == "Deployment"] == [5]

    def test_the_failure_policy_can_be_ignore(self) -> None:
        objects = installed("--webhook-failure-policy", "Ignore").documents
        assert objects == render(InstallationOptions(image=GIVEN, failure_policy="Ignore"))
        assert installed("--webhook-failure-policy", "Fail").documents == render(CHOICE)

    def test_shards_have_a_lease_and_a_replica_each_and_one_more_replica(self) -> None:
        objects = {each["kind"]: each for each in installed("--shards", "12").documents}
        assert "--shards=12" in container([*objects.values()])["args"]
        assert objects["Deployment"]["spec"]["replicas"] == 13
        assert objects["PodDisruptionBudget"]["spec"]["minAvailable"] == 12
        assert int(objects["ResourceQuota"]["spec"]["hard"]["pods"]) >= 14
        (named, *_) = objects["Role"]["rules"]
        assert named["resourceNames"] == [*lease_names("gangctl", 12)]

    def test_two_shards_equal_the_component_and_one_adds_nothing(self) -> None:
        assert installed("--shards", "2").out == installed("--component", "shards").out
        assert installed("--shards", "1").out == installed().out

    def test_a_gangctl_outside_of_the_cluster_has_rights_to_its_leases(self) -> None:
        objects = fine("install", "--out-of-cluster", "--shards", "3").documents
        (role,) = [each for each in objects if each["kind"] == "Role"]
        assert role["rules"][0]["resourceNames"] == [*lease_names("gangctl", 3)]

    def test_as_many_replicas_as_shards_give_a_note_about_drains(self) -> None:
        answer = installed("--shards", "3", "--replicas", "3")
        assert "3 of 3 replicas must always answer" in answer.err

    @each("flags", [("--replicas", "65"), ("--shards", "64"), ("--component", "shards"), ()])
    def test_the_resource_quota_allows_a_rolling_update(self, flags: tuple[str, ...]) -> None:
        objects = {each["kind"]: each for each in installed(*flags).documents}
        spec = objects["Deployment"]["spec"]
        pods = spec["replicas"] + spec["strategy"]["rollingUpdate"]["maxSurge"]
        assert int(objects["ResourceQuota"]["spec"]["hard"]["pods"]) >= pods

    def test_components_may_be_named_in_any_order(self) -> None:
        pair = ("--component", "monitoring/secured", "--component", "monitoring")
        assert installed(*pair).out == installed(*pair[2:], *pair[:2], *pair[2:]).out

    def test_rights_only_are_printed_for_a_gangctl_outside_of_the_cluster(self) -> None:
        answer = fine("install", "--out-of-cluster", "-n", "default")
        assert {*kinds(answer)} <= {
            *("CustomResourceDefinition", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
            *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
        }
        subjects = [each["subjects"] for each in answer.documents if "subjects" in each]
        assert {subject["kind"] for each in subjects for subject in each} == {"User"}

    def test_fewer_replicas_than_required_give_a_note(self) -> None:
        assert "1 of 1 replicas must always answer" in installed("--replicas", "1").err
        both = installed("--component", "high-availability", "--replicas", "2")
        assert "2 of 2 replicas must always answer" in both.err

    def test_offline_it_needs_no_client(self) -> None:
        code = (
            "import sys\nfrom gangctl.cli.program import program\n"
            "try: program.main(['install', '--image', 'a/b:1', '-o', 'json'])\nexcept SystemExit: pass\n"
            "print([m for m in ('aiohttp', 'kubernetes_asyncio', 'pydantic', 'structlog') if m in sys.modules],"
            " file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
        assert done.stderr == "[]\n"


class TestRemoval:
    def test_a_removal_starts_with_webhooks_and_keeps_shared_objects(self) -> None:
        found = kinds(fine("install", "--uninstall", *ALL))
        assert {*found[:5]} == WEBHOOKS
        assert {*found[5:7]} == POLICY_KINDS
        assert not {*found[5:]} & {*WEBHOOKS, "CustomResourceDefinition", "Namespace"}

    def test_a_removal_ends_with_definitions_and_the_namespace(self) -> None:
        found = kinds(fine("install", "--uninstall", "--everything", *ALL))
        assert found[-1] == "Namespace"
        assert found[-6:-1] == ["CustomResourceDefinition"] * 5

    def test_every_installed_object_is_removed(self) -> None:
        def named(objects: list[Object]) -> set[tuple[str, str, str]]:
            return {(each["kind"], each["metadata"]["name"], each["metadata"].get("namespace")) for each in objects}

        flags = (*ALL, "-n", "elsewhere")
        removed = named(fine("install", "--uninstall", "--everything", *flags).documents)
        made = {("Lease", name, "elsewhere") for name in lease_names("gangctl", 2)}
        made |= {("Secret", "gangctl-webhook-certs", "elsewhere")}
        assert removed - named(installed(*flags).documents) == made

    def test_the_leases_of_all_shards_are_removed(self) -> None:
        found = fine("install", "--uninstall", "--shards", "3", "-o", "name").out.splitlines()
        leases = [each.rpartition("/")[2] for each in found if each.startswith("lease.")]
        assert leases == [*lease_names("gangctl", 3)]

    def test_objects_that_gangctl_creates_are_removed_after_its_rights(self) -> None:
        found = fine("install", "--uninstall", "-o", "name").out.splitlines()
        assert found.index("secret/gangctl-webhook-certs") > found.index(
            "rolebinding.rbac.authorization.k8s.io/gangctl"
        )

    def test_webhooks_of_a_gangctl_outside_of_the_cluster_are_removed(self) -> None:
        assert {*kinds(fine("install", "--uninstall", "--out-of-cluster"))[:4]} == WEBHOOKS


@each(
    ("flags", "words"),
    [
        ((), "name the image: --image registry.example/gangctl:0.1.0. There is no public image: make image PUSH="),
        (("--component", "monitoring"), "name the image"),
        (("--component", "kueue"), "'kueue' is not one of 'high-availability'"),
        (("--image", "two words"), "is not the name of an image"),
        (("--replicas", "0"), "0 is not in the range"),
        (("--shards", "65"), "65 is not in the range 1<=x<=64"),
        (("--shards", "3", "--replicas", "2"), "--replicas 2 cannot lead 3 shards, one each: give 4 replicas or more"),
        (("--component", "shards", "--replicas", "1"), "--replicas 1 cannot lead 2 shards"),
        (("--component", "shards", "--shards", "1"), "--component shards is two shards"),
        (("--flag", "shards=3"), "--flag shards would lack the rights to its Leases: give --shards NUMBER"),
        (("--uninstall", "--replicas", "3"), "--replicas changes nothing of what --uninstall deletes"),
        (("--flag", "kueue"), "must look like NAME=VALUE"),
        ((*IMAGE, "--flag", "kueue=maybe"), "the controller would not start: invalid settings: kueue"),
        ((*IMAGE, "--flag", "no-such=1"), "invalid settings: no-such: there is no such setting"),
        ((*IMAGE, "--flag", "kueue-namespce=x"), "did you mean kueue-namespace?"),
        ((*IMAGE, "--flag", "webhook-failure-policy=Ignore"), "has no effect with webhook-registration ca-only"),
        ((*IMAGE, "--flag", "webhook-bind-address=:10250"), "the pods have port 9443 for it (webhook)"),
        ((*IMAGE, "--flag", "metrics-bind-address=127.0.0.1:9090"), "the pods have port 8080 for it (metrics)"),
        *(
            ((*IMAGE, "--flag", text), f"--flag {text.partition('=')[0]}: the webhooks of the installation are others")
            for text in (
                *("namespace-selector=team=ml", "webhook-timeout=20", "webhook-service-port=8443"),
                *("webhook-service=other", "webhook-url=https://gangctl.example"),
            )
        ),
        (
            (*IMAGE, "--component", "tenants/managed", "--flag", "namespace-selector=team=ml"),
            "--flag namespace-selector: the webhooks of the installation are others",
        ),
        *(
            ((*IMAGE, "--flag", f"{flag}=true"), f"--flag {flag} would lack its rights: give --component {component}")
            for flag, component in (
                *(("kueue-check", "kueue-check"), ("gang-objects", "gang-objects"), ("evict-stranded", "stranded")),
                *(("pathways", "pathways"), ("metrics-secure", "monitoring/secured")),
            )
        ),
        ((*IMAGE, "--flag", "webhook-registration=manage"), "would lack its rights, which no component has"),
        ((*IMAGE, "--flag", "own-namespace=other"), "give --namespace other instead"),
        ((*IMAGE, "--flag", "cert-dir=/certs"), "--flag cert-dir: the pods have nothing at /certs"),
        ((*IMAGE, "--flag", "leader-elect=false"), "--flag leader-elect: each of 2 replicas would write"),
        (("-n", "kube-system"), "namespace kube-system is not gangctl's alone"),
        (("-n", "default"), "namespace default is not gangctl's alone"),
        ((*IMAGE, "--component", "policies/native/deny"), "give --component policies/native, too"),
        (("--out-of-cluster", "--component", "tenants"), "leave --component out"),
        (("--out-of-cluster", "--image", "x"), "leave --image out"),
        (("--webhook-failure-policy", "Warn"), "'Fail', 'Ignore'"),
        ((*IMAGE, "--flag", "webhook-failure-policy=Ignore"), "gangctl install --webhook-failure-policy"),
        (("--everything",), "--everything says what --uninstall deletes"),
        (("--uninstall", "--log-level", "info"), "--log-level changes nothing of what --uninstall deletes"),
    ],
)
def test_contradictory_flags_are_refused(flags: tuple[str, ...], words: str) -> None:
    answer = gangctl("install", *flags)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err


def test_flags_that_the_rest_of_the_installation_follows_are_accepted() -> None:
    managed = ("--component", "tenants/managed", "--flag", "namespace-selector=gangctl.dev/managed=true")
    alone = ("--replicas", "1", "--flag", "leader-elect=false")
    for flags in (managed, (*managed, "-n", "zone"), alone, ("--component", "pathways", "--flag", "pathways=true")):
        installed(*flags)


@asynccontextmanager
async def serving(groups: Mapping[str, str]) -> AsyncIterator[str]:
    """An API server that has these groups, with one version each; any version of the scheduling API has Workloads."""

    async def answer(request: web.Request) -> web.Response:
        group, _, version = request.path.removeprefix("/apis/").partition("/")
        if group not in groups:
            return web.json_response({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)
        if version:
            plurals = ("workloads", "podgroups", "mutatingadmissionpolicies")
            return web.json_response({"resources": [{"name": plural} for plural in plurals]})
        return web.json_response({"versions": [{"version": groups[group]}]})

    async with listening(answer) as url:
        yield url


EVERYTHING = {
    "admissionregistration.k8s.io": "v1",
    "scheduling.k8s.io": "v1beta1",
    "jobset.x-k8s.io": "v1alpha2",
    "kueue.x-k8s.io": "v1beta2",
    "monitoring.coreos.com": "v1",
    "cert-manager.io": "v1",
}


class TestCluster:
    async def test_capabilities_of_the_cluster_are_noted_and_the_objects_are_the_same(self, tmp_path: Path) -> None:
        async with serving(EVERYTHING) as url:
            answer = await ask("install", *IMAGE, "--kubeconfig", kubeconfig(tmp_path, url), "--component", "shards")
        assert answer.code == 0
        assert answer.out == installed("--component", "shards").out
        reported = answer.err.splitlines()
        assert "serves scheduling.k8s.io/v1beta1" in reported[0]
        assert [line.split("--component ")[1].split()[0] for line in reported[1:]] == [
            "cert-manager",
            "kueue-check",
            "monitoring",
        ]

    async def test_missing_capabilities_of_the_cluster_are_noted(self, tmp_path: Path) -> None:
        async with serving({}) as url:
            flags = (*IMAGE, "--kubeconfig", kubeconfig(tmp_path, url), "--component", "kueue-check")
            answer = await ask("install", *flags)
        assert answer.code == 0
        scheduling, jobset, policy, kueue = answer.err.splitlines()
        assert "without the policy for Jobs, which is left out, the Jobs of gangs wait for gangctl" in policy
        assert "no gang can be made in this cluster yet: the cluster serves no Workloads" in scheduling
        assert "waits until JobSet is installed" in jobset
        assert "component kueue-check does nothing before Kueue is installed" in kueue

    async def test_a_component_that_the_cluster_would_refuse_is_an_error(self, tmp_path: Path) -> None:
        groups = {**EVERYTHING, "monitoring.coreos.com": "v1alpha1"}
        async with serving(groups) as url:
            flags = ("--kubeconfig", kubeconfig(tmp_path, url), "--component", "monitoring")
            answer = await ask("install", *IMAGE, *flags)
        assert (answer.code, answer.out) == (3, "")
        assert "error: component monitoring: the cluster does not serve monitoring.coreos.com/v1" in answer.err
        assert "hint: install Prometheus' operator first" in answer.err

    async def test_the_policy_for_jobs_is_left_out_where_it_is_not_served(self, tmp_path: Path) -> None:
        groups = {group: version for group, version in EVERYTHING.items() if group != "admissionregistration.k8s.io"}
        async with serving(groups) as url:
            older = ("--kubeconfig", kubeconfig(tmp_path, url))
            answers = [await ask("install", *older, *flags) for flags in (IMAGE, ("--uninstall",))]
        for answer, everywhere in zip(answers, (installed(), fine("install", "--uninstall")), strict=True):
            assert answer.code == 0
            assert kinds(answer) == [kind for kind in kinds(everywhere) if kind not in POLICY_KINDS]
            assert "gangctl-jobs" in answer.out

    async def test_a_removal_leaves_out_what_the_cluster_no_longer_serves(self, tmp_path: Path) -> None:
        groups = {group: version for group, version in EVERYTHING.items() if group != "monitoring.coreos.com"}
        flags = ("--uninstall", "--component", "monitoring")
        async with serving(groups) as url:
            answer = await ask("install", *flags, "--kubeconfig", kubeconfig(tmp_path, url))
        assert (answer.code, answer.err) == (0, "")
        everywhere = fine("install", *flags).documents
        assert answer.documents == [item for item in everywhere if item["apiVersion"] != "monitoring.coreos.com/v1"]
        assert answer.documents != everywhere

    async def test_an_unreachable_cluster_is_an_error(self, tmp_path: Path) -> None:
        answer = await ask("install", *IMAGE, "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"))
        assert (answer.code, answer.out) == (3, "")
