"""Requests for objects in files, with what the API server writes into them before it asks policies."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gangctl.api.documents import parse_documents
from gangctl.api.emit import to_yaml
from gangctl.api.scheduling import NEWEST
from gangctl.cli.policy.requests import FileCatalogue, RequestSetting, groups_of, request_of, sent_for
from gangctl.cli.policy.writes import refused_writes
from gangctl.policy.load import load_policy
from gangctl.policy.native import load_native
from gangctl.policy.review import Operation, Review
from tests.cli.policy.policies import files, native, policy, rule
from tests.cli.run import gangctl
from tests.jobsets import jobset, rj
from tests.rows import each

Object = dict[str, Any]

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
GENERATED: Object = {**jobset("js", rj("a")), "metadata": {"generateName": "js-", "namespace": "t"}}
DUMP_METADATA: Object = {
    "uid": "5b1a",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "generation": 2,
    "resourceVersion": "7",
    "deletionTimestamp": "2026-01-02T00:00:00Z",
    "deletionGracePeriodSeconds": 0,
}


def dump(raw: Object) -> Object:
    """As ``kubectl get -o yaml`` prints it while it is being deleted."""
    return {**raw, "metadata": {**raw["metadata"], **DUMP_METADATA}, "status": {"restarts": 3}}


def request(raw: Object, operation: Operation = "CREATE", old: Object | None = None) -> Review:
    review, _ = request_of(raw, operation, RequestSetting(now=NOW), [], FileCatalogue([]), old=old)
    return review


class TestCreation:
    def test_policies_see_the_generated_name_and_what_the_server_fills_in(self) -> None:
        review = request(GENERATED)
        assert review.object is not None
        metadata = review.object["metadata"]
        assert metadata["name"] == review.request["name"] == "js-xxxxx"
        assert (metadata["creationTimestamp"], metadata["generation"]) == ("2026-05-01T12:00:00Z", 1)
        assert metadata["uid"]

    def test_a_dump_is_a_new_object(self) -> None:
        review = request(dump(jobset("js", rj("a"))))
        assert review == request(jobset("js", rj("a")))
        assert review.object is not None
        assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"} & {*review.object["metadata"]}
        assert "status" not in review.object

    def test_conditions_of_defaults_see_no_generated_name(self, tmp_path: Path) -> None:
        """They are evaluated at mutation, before there is one."""
        unnamed = [{"name": "unnamed", "expression": "!has(object.metadata.name) && !has(object.metadata.uid)"}]
        gives = policy("gives", defaults={"queue": "q"}, matchConditions=unnamed)
        limits = policy("limits", rule("object.metadata.name.startsWith('js-') && request.name != ''"))
        paths = files(tmp_path, policies=[gives, limits], subjects=[GENERATED])
        answer = gangctl("policy", "eval", "-p", paths["policies"], "-f", paths["subjects"], "-o", "json")
        assert (answer.json["allowed"], len(answer.json["defaults"])) == (True, 1)


class TestUpdate:
    def test_policies_see_what_an_update_cannot_change(self) -> None:
        """A file that is applied to an object of a cluster does not have them."""
        review = request(jobset("js", rj("a", 2)), "UPDATE", dump(jobset("js", rj("a"))))
        assert review.object is not None
        assert review.object["metadata"] == {"name": "js", "namespace": "t", **DUMP_METADATA, "generation": 3}
        assert review.object["status"] == {"restarts": 3}

    def test_an_update_of_metadata_keeps_the_generation_and_the_status(self) -> None:
        changed = {**jobset("js", rj("a"), annotations={"a": "b"}), "status": {"restarts": 0}}
        review = request(changed, "UPDATE", dump(jobset("js", rj("a"))))
        assert review.object is not None
        assert (review.object["metadata"]["generation"], review.object["status"]) == (2, {"restarts": 3})

    def test_a_jobset_of_a_cluster_without_stamps_is_no_gang(self) -> None:
        unstamped = jobset("js", rj("a", 1, 2, 2), mode="Gang", uid="u")
        review = request(jobset("js", rj("a", 1, 3, 3), mode="Gang"), "UPDATE", unstamped)
        assert not isinstance(review.gang, (str, type(None)))
        assert review.gang["level"] == "None"

    def test_an_object_of_a_file_stands_for_one_that_was_created(self) -> None:
        review = request(jobset("js", rj("a")), "UPDATE", jobset("js", rj("a")))
        assert review.object == review.old_object == request(jobset("js", rj("a"))).object
        assert request(jobset("js", rj("a")), "DELETE").old_object == review.object


def test_an_object_of_the_cluster_has_no_namespace() -> None:
    review = request({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "q"}})
    assert "namespace" not in review.request
    assert review.namespace is None
    assert review.object is not None
    assert "namespace" not in review.object["metadata"]


def test_a_namespace_in_a_param_ref_makes_the_kind_namespaced() -> None:
    """kubectl creates a parameter object that names none in the namespace default."""
    limit = {"apiVersion": "rules.example.com/v1", "kind": "ReplicaLimit", "metadata": {"name": "limit"}, "max": 3}
    kind = {"apiVersion": limit["apiVersion"], "kind": limit["kind"]}
    reference = {"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"}
    loaded = load_policy(policy("p", rule("params.max == 3"), paramKind=kind, paramRef=reference))
    catalogue = FileCatalogue([limit], policies=[loaded])
    review, _ = request_of(jobset("js", rj("a")), "CREATE", RequestSetting(now=NOW), [loaded], catalogue)
    assert (review.params, review.param_errors) == ({"p": (limit,)}, {})


def test_a_user_has_the_groups_that_its_name_brings() -> None:
    kueue = "system:serviceaccount:kueue-system:kueue-controller-manager"
    everyone, accounts = "system:authenticated", "system:serviceaccounts"
    assert groups_of(kueue) == (accounts, f"{accounts}:kueue-system", everyone)
    assert groups_of("ann") == groups_of("system:serviceaccount:ann") == (everyone,)
    assert groups_of("system:anonymous") == ("system:unauthenticated",)
    for groups, expected in ((), groups_of(kueue)), (("ops",), ("ops",)):
        setting = RequestSetting(now=NOW, user=kueue, groups=groups)
        review, _ = request_of(jobset("js", rj("a")), "CREATE", setting, [], FileCatalogue([]))
        assert review.request["userInfo"]["groups"] == [*expected]


def test_a_rule_that_leaves_kueue_out_by_its_group_refuses_no_write_of_it() -> None:
    condition = {"name": "users", "expression": "!('system:serviceaccounts' in request.userInfo.groups)"}
    refusing = native("p", rule("false"), matchConditions=[condition])
    (loaded,) = load_native([refusing])
    assert list(refused_writes(loaded, NOW)) == []


def test_a_field_that_jobset_may_drop_is_noted() -> None:
    """Policies leave a JobSet out that JobSet schedules as a gang; JobSet 0.12 has no such field."""
    native_gang = jobset("js", rj("a"), scheduling={"schedulingPolicy": {"gang": {}}})
    documents = parse_documents(to_yaml([native_gang, jobset("other", rj("a"))]), "f")
    noted, other = sent_for(documents, "CREATE", NEWEST)
    (note,) = noted.notes
    assert note.startswith("evaluated as where JobSet has the field spec.scheduling: JobSet 0.12 drops it")
    assert other.notes == ()
    review = request(native_gang)
    assert review.object is not None
    assert "scheduling" in review.object["spec"]


JOB: Object = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"generateName": "j-", "namespace": "t"},
    "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}},
}


class TestJobs:
    def test_a_job_has_what_the_api_server_fills_in(self) -> None:
        review = request(JOB)
        assert review.object is not None
        spec, metadata = review.object["spec"], review.object["metadata"]
        assert (spec["parallelism"], spec["backoffLimit"], review.object["status"]) == (1, 6, {})
        assert spec["template"]["spec"]["containers"][0]["resources"] == {}
        assert spec["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == metadata["name"] == "j-xxxxx"
        assert spec["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": metadata["uid"]}

    def test_an_update_of_a_job_keeps_its_generated_labels(self) -> None:
        raw = {**JOB, "metadata": {"name": "j", "namespace": "t"}}
        old = request(dump(raw), "DELETE").old_object
        review = request(raw, "UPDATE", dump(raw))
        assert review.object == review.old_object == old

    def test_a_job_that_cannot_be_decoded_is_evaluated_as_written(self) -> None:
        raw = {**JOB, "spec": {**JOB["spec"], "parallelism": "two"}}
        review, notes = request_of(raw, "CREATE", RequestSetting(now=NOW), [], FileCatalogue([]))
        assert review.object is not None
        assert review.object["spec"] == raw["spec"]
        assert notes[0].startswith("Job t/j- is evaluated as written, because the API server refuses it: ")


@each(("api_version", "scope"), [("constraints.gatekeeper.sh/v1beta1", "Cluster"), ("example.com/v1", "Namespaced")])
def test_constraints_of_gatekeeper_have_no_namespace(api_version: str, scope: str) -> None:
    """Lint asks without objects: each kind is made from a template, so that only the group is known."""
    assert FileCatalogue([]).scope(api_version, "MaxReplicas") == scope


def test_what_is_not_evaluated_is_noted(tmp_path: Path) -> None:
    """A policy that changes objects before others see them, and the JobSet that a TrainJob becomes."""
    mutating = native("adds-a-queue", rule("true")) | {"kind": "MutatingAdmissionPolicy"}
    trainjob = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "train"}}
    paths = files(tmp_path, policies=[policy("p", rule("true")), mutating], subjects=[trainjob])
    answer = gangctl("policy", "eval", "-p", paths["policies"], "-f", paths["subjects"], "-o", "json")
    assert answer.err.startswith("note: MutatingAdmissionPolicy adds-a-queue is not evaluated: give the objects as")
    (note,) = answer.json["notes"]
    assert note.startswith("a TrainJob becomes a JobSet of its name in the cluster: ")
    assert note.endswith("kubectl get jobset NAME -o yaml | gangctl policy eval --policy FILE -f -")
