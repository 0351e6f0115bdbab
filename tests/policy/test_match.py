"""Which requests a policy is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.policy.loaded import BrokenPolicy
from gangctl.policy.model import GangPolicySpec, MatchResources
from gangctl.policy.review import Operation, Review, matches
from tests.policy.documents import Object, review_of, rule
from tests.rows import each
from tests.strategies import PROPERTY


def about(narrowing: Object | None = None, **constraints: Any) -> BrokenPolicy:
    """A policy of any resource, as native ones are."""
    narrowed = None if narrowing is None else MatchResources.model_validate(narrowing)
    spec = GangPolicySpec.model_validate({"matchConstraints": constraints})
    return BrokenPolicy("policy", {}, "", spec, fail_closed=True, actions=frozenset(), narrowing=narrowed)


def jobset(name: str = "js", **labels: str) -> Object:
    return {"metadata": {"name": name, "namespace": "ns", "labels": labels}}


def of(operation: Operation = "CREATE", obj: Object | None = None, **more: Any) -> Review:
    obj = jobset() if obj is None else obj
    if operation == "DELETE":
        return review_of(None, operation, old=obj, **more)
    return review_of(obj, operation, **more)


@each("operation", ["UPDATE", "DELETE", "CONNECT"])
def test_without_rules_a_policy_matches_creates_of_jobsets(operation: Operation) -> None:
    assert matches(about(), of()) == ""
    assert matches(about(), of(operation)) == "operation"
    pods = of(operation, resource=("", "v1", "pods"))
    assert matches(about(), pods) == "resource"


RULES: dict[str, tuple[Object, Review, str]] = {
    "all": (rule(apiGroups=["*"], resources=["*"]), of(), ""),
    "its group": (rule(), of(), ""),
    "another group": (rule(apiGroups=["batch"]), of(), "resource"),
    "the core group": (rule(apiGroups=[""], resources=["pods"]), of(resource=("", "v1", "pods")), ""),
    "its version": (rule(apiVersions=["v1", "v1alpha2"]), of(), ""),
    "another version": (rule(apiVersions=["v1"]), of(), "resource"),
    "its operation": (rule("DELETE", "CREATE"), of(), ""),
    "another operation": (rule("DELETE"), of(), "operation"),
    "namespaced": (rule(scope="Namespaced"), of(), ""),
    "cluster-scoped": (rule(scope="Cluster"), of(), "scope"),
    "a cluster-scoped object": (
        rule(scope="Cluster", apiGroups=[""], resources=["nodes"]),
        of(obj={"metadata": {"name": "n"}}, resource=("", "v1", "nodes")),
        "",
    ),
    "its name": (rule(resourceNames=["x", "js"]), of(), ""),
    "another name": (rule(resourceNames=["x"]), of(), "resourceNames"),
    "no name yet": (
        rule(resourceNames=["js"]),
        of(obj={"metadata": {"generateName": "js", "namespace": "ns"}}),
        "resourceNames",
    ),
    "a subresource": (rule(), of(subresource="status"), "resource"),
    "its subresource": (rule(resources=["jobsets/status"]), of(subresource="status"), ""),
    "every subresource": (rule(resources=["jobsets/*"]), of(subresource="status"), ""),
    "every subresource and the object": (rule(resources=["jobsets/*"]), of(), ""),
    "that subresource of all": (rule(resources=["*/status"]), of(subresource="status"), ""),
    "all of all": (rule(resources=["*/*"]), of(subresource="scale"), ""),
    "all, which is no subresource": (rule(resources=["*"]), of(subresource="scale"), "resource"),
}


@each("case", RULES)
def test_a_rule_matches_by_group_version_resource_and_operation(case: str) -> None:
    written, review, reason = RULES[case]
    assert matches(about(resourceRules=[written]), review) == reason
    excluded = about(resourceRules=[rule(apiGroups=["*"], resources=["*/*"])], excludeResourceRules=[written])
    assert matches(excluded, review) == ("" if reason else "excludeResourceRules")


def test_one_matching_rule_is_enough_and_the_nearest_explains_a_mismatch() -> None:
    far, near = rule(apiGroups=["batch"]), rule("DELETE")
    assert matches(about(resourceRules=[far, near, rule()]), of()) == ""
    assert matches(about(resourceRules=[far, near]), of()) == "operation"


def labelled(**labels: str) -> Object:
    return {"metadata": {"name": "ns", "labels": labels}}


def test_the_namespace_selector_reads_the_labels_of_the_namespace() -> None:
    policy = about(namespaceSelector={"matchLabels": {"team": "a"}})
    assert matches(policy, of(namespace=labelled(team="a"))) == ""
    assert matches(policy, of(namespace=labelled(team="b"))) == "namespaceSelector"
    assert matches(policy, of()) == "namespaceSelector"


def test_the_name_of_a_namespace_is_a_label_of_it() -> None:
    for namespace in (None, labelled(), {}):
        review = of(namespace=namespace)
        assert matches(about(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "ns"}}), review) == ""
        other = about(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "other"}})
        assert matches(other, review) == "namespaceSelector"


def test_cluster_scoped_objects_have_no_namespace_to_be_selected_by() -> None:
    everything = [rule(apiGroups=["*"], resources=["*"])]
    policy = about(namespaceSelector={"matchLabels": {"team": "a"}}, resourceRules=everything)
    assert matches(policy, of(obj={"metadata": {"name": "n"}}, resource=("", "v1", "nodes"))) == ""


def test_a_namespace_is_selected_by_its_own_labels() -> None:
    everything = [rule(apiGroups=["*"], resources=["*"])]
    policy = about(namespaceSelector={"matchLabels": {"team": "a"}}, resourceRules=everything)
    resource = ("", "v1", "namespaces")
    assert matches(policy, of(obj=labelled(team="a"), resource=resource)) == ""
    assert matches(policy, of(obj=labelled(team="b"), resource=resource)) == "namespaceSelector"
    assert matches(policy, of("DELETE", obj=labelled(team="a"), resource=resource)) == ""


def test_the_object_selector_fits_the_new_object_or_the_old_one() -> None:
    policy = about(objectSelector={"matchLabels": {"a": "b"}}, resourceRules=[rule()])
    assert matches(policy, of(obj=jobset(a="b"))) == ""
    assert matches(policy, of(obj=jobset())) == "objectSelector"
    assert matches(policy, review_of(jobset(), "UPDATE", old=jobset(a="b"))) == ""
    assert matches(policy, of("DELETE", obj=jobset(a="b"))) == ""
    absent = about(objectSelector={"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]})
    assert matches(absent, review_of(jobset(a="b"), "UPDATE", old=jobset(a="b"))) == "objectSelector"


@each("labels", [None, [], "x", {"a": 1}, {"a": None}])
def test_labels_of_any_shape_are_read(labels: Any) -> None:
    policy = about(objectSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]})
    assert (
        matches(policy, of(obj={"metadata": {"name": "js", "namespace": "ns", "labels": labels}})) == "objectSelector"
    )


@each("operation", ["UPDATE", "DELETE"])
def test_an_object_that_is_being_deleted_is_not_evaluated(operation: Operation) -> None:
    ending = {"metadata": {"name": "js", "namespace": "ns", "deletionTimestamp": "2026-06-01T00:00:00Z"}}
    policy = about(resourceRules=[rule()])
    assert matches(policy, review_of(ending if operation == "UPDATE" else None, operation, old=ending)) != ""
    assert matches(policy, review_of(jobset(), operation, old=jobset())) == ""
    assert matches(policy, of(obj=ending)) == "", "a user writes what is created"
    native = replace(policy, name="policy/binding")
    assert matches(native, review_of(ending, operation, old=ending)) == "", "as natively"


def test_a_binding_narrows_the_match() -> None:
    assert matches(about({}), of()) == ""
    team, every = {"namespaceSelector": {"matchLabels": {"team": "a"}}}, [rule("CREATE", "UPDATE")]
    narrowed = about({**team, "resourceRules": [rule("CREATE")]}, resourceRules=every)
    assert matches(narrowed, of(namespace=labelled(team="a"))) == ""
    assert matches(narrowed, of(namespace=labelled())) == "binding: namespaceSelector"
    assert matches(narrowed, of("UPDATE", namespace=labelled(team="a"))) == "binding: operation"
    assert matches(narrowed, of("DELETE", namespace=labelled(team="a"))) == "operation"


parts = st.fixed_dictionaries(
    {
        "apiGroups": st.sampled_from([["*"], ["jobset.x-k8s.io"], ["batch"], ["batch", "jobset.x-k8s.io"]]),
        "apiVersions": st.sampled_from([["*"], ["v1alpha2"], ["v1"]]),
        "operations": st.lists(st.sampled_from(["CREATE", "UPDATE", "DELETE"]), min_size=1, max_size=3),
        "resources": st.sampled_from([["*"], ["jobsets"], ["jobs"], ["jobsets/status"], ["*/*"]]),
    },
    optional={
        "resourceNames": st.lists(st.sampled_from(["js", "x"]), max_size=2, unique=True),
        "scope": st.sampled_from(["*", "Namespaced", "Cluster"]),
    },
)
reviews = st.builds(of, st.sampled_from(["CREATE", "UPDATE", "DELETE"]), subresource=st.sampled_from(["", "status"]))


@PROPERTY
@given(st.lists(parts, min_size=1, max_size=4), reviews)
def test_several_rules_cover_what_any_of_them_covers(rules: list[Object], review: Review) -> None:
    each = [matches(about(resourceRules=[one]), review) == "" for one in rules]
    assert (matches(about(resourceRules=rules), review) == "") is any(each)


@PROPERTY
@given(st.lists(parts, min_size=1, max_size=3), parts, reviews)
def test_excluding_and_narrowing_never_add_a_request(rules: list[Object], other: Object, review: Review) -> None:
    fits = matches(about(resourceRules=rules), review) == ""
    alone = matches(about(resourceRules=[other]), review) == ""
    excluded = matches(about(resourceRules=rules, excludeResourceRules=[other]), review) == ""
    narrowed = matches(about({"resourceRules": [other]}, resourceRules=rules), review) == ""
    assert excluded is (fits and not alone)
    assert narrowed is (fits and alone)
