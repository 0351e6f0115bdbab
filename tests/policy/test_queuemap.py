"""Which queue a JobSet gets: the first entry of a policy's queue map that fits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gangctl.errors import ErrorKind, ValidationError
from gangctl.policy.defaults import Applied, defaults_of
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.model import Accelerator, QueueChoice, QueueMatch
from tests.gang.json_patch import apply
from tests.jobsets import jobset, rj
from tests.policy.documents import Object, policy, review_of
from tests.policy.reviews import loaded, read_policy
from tests.rows import each
from tests.strategies import PROPERTY, hostile_jobsets

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
GPU = "nvidia.com/gpu"
POOL = "cloud.google.com/gke-accelerator"


def entry(queue: str = "q", priority: str | None = None, **match: Any) -> Object:
    return {"match": match, "queue": queue, **({} if priority is None else {"priorityClass": priority})}


def mapping(*queues: Object, name: str = "p", **defaults: Any) -> LoadedPolicy:
    return loaded(policy(name=name, defaults={"queues": list(queues), **defaults}))


def applied(raw: Object, *policies: LoadedPolicy, namespace: Object | None = None) -> Applied:
    return defaults_of(policies, review_of(raw, namespace=namespace))


def given_labels(raw: Object, *policies: LoadedPolicy, namespace: Object | None = None) -> dict[str, str]:
    """Labels after the defaults, of which nothing else is changed."""
    found = applied(raw, *policies, namespace=namespace)
    assert found.conflicts == ()
    changed: Object = apply(raw, list(found.patch))
    assert changed["spec"] == raw["spec"]
    assert {**changed["metadata"], "labels": None} == {**raw["metadata"], "labels": None}
    return dict(changed["metadata"].get("labels") or {})


def plain(*replicated_jobs: Object, **labels: str) -> Object:
    raw = jobset("js", *(replicated_jobs or (rj("a"), rj("b"))))
    raw["metadata"]["labels"] = {key.replace("_", "/"): value for key, value in labels.items()}
    return raw


def asking(name: str = "w", amount: str | int = "8", *, where: str = "requests", **pod: Any) -> Object:
    container = {"name": "main", "image": "none", "resources": {where: {GPU: amount}}}
    return rj(name, pod={"containers": [container], **pod})


def test_the_first_entry_that_fits_decides() -> None:
    policies = mapping(
        entry("first", objectSelector={"matchLabels": {"a": "b"}}),
        entry("second", objectSelector={"matchLabels": {"c": "d"}}),
        entry("third", objectSelector={"matchLabels": {"a": "b", "c": "d"}}),
        queue="fallback",
    )
    assert given_labels(plain(a="b", c="d"), policies)[QUEUE] == "first"
    assert given_labels(plain(c="d"), policies)[QUEUE] == "second"
    assert given_labels(plain(), policies)[QUEUE] == "fallback"
    assert applied(plain(), mapping(entry(objectSelector={"matchLabels": {"a": "b"}}))) == Applied()


def test_every_condition_of_an_entry_has_to_fit() -> None:
    both = mapping(entry(objectSelector={"matchLabels": {"a": "b"}}, accelerator={"resource": GPU}))
    assert QUEUE in given_labels(plain(asking(), a="b"), both)
    assert QUEUE not in given_labels(plain(asking()), both)
    assert QUEUE not in given_labels(plain(a="b"), both)


def test_a_namespace_is_chosen_by_its_labels() -> None:
    research = mapping(entry("research", namespaceSelector={"matchLabels": {"team": "research"}}))
    namespace: Object = {"metadata": {"name": "t", "labels": {"team": "research"}}}
    assert given_labels(plain(), research, namespace=namespace)[QUEUE] == "research"
    assert QUEUE not in given_labels(plain(), research, namespace={"metadata": {"name": "t"}})
    by_name = mapping(entry("t", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "t"}}))
    assert given_labels(plain(), by_name)[QUEUE] == "t"


@each(
    ("label", "pods", "fits"),
    [
        pytest.param(None, ["high"], True, id="pods"),
        pytest.param(None, ["", "high"], True, id="the-first-that-has-one"),
        pytest.param(None, ["low", "high"], False, id="not-the-second"),
        pytest.param("high", ["low"], True, id="the-label-first"),
        pytest.param("low", ["high"], False, id="the-label-alone"),
        pytest.param(None, [""], False, id="none"),
    ],
)
def test_a_priority_class_is_matched_as_by_kueue(label: str | None, pods: list[str], fits: bool) -> None:
    jobs = [rj(f"w{n}", pod={"priorityClassName": name} if name else {}) for n, name in enumerate(pods)]
    raw = plain(*jobs, **({} if label is None else {"kueue.x-k8s.io_priority-class": label}))
    assert (QUEUE in given_labels(raw, mapping(entry(priorityClasses=["urgent", "high"])))) is fits


@each(
    ("job", "fits"),
    [
        pytest.param(asking(), True, id="requests"),
        pytest.param(asking(where="limits"), True, id="limits"),
        pytest.param(asking(amount=4), True, id="a-number"),
        pytest.param(asking(amount="0"), False, id="zero"),
        pytest.param(asking(amount="many"), False, id="unreadable"),
        pytest.param(rj("w"), False, id="nothing"),
        pytest.param({**asking(), "replicas": 0}, True, id="no-replicas-yet"),
    ],
)
def test_an_accelerator_is_what_some_pods_request(job: Object, fits: bool) -> None:
    """A driver without accelerators stands beside the workers."""
    assert (QUEUE in given_labels(plain(rj("driver"), job), mapping(entry(accelerator={"resource": GPU})))) is fits


def test_an_accelerator_is_what_nodes_have() -> None:
    by_node = mapping(entry(accelerator={"nodeLabels": {POOL: "h100"}}))
    assert QUEUE in given_labels(plain(rj("w", pod={"nodeSelector": {POOL: "h100", "zone": "a"}})), by_node)
    assert QUEUE not in given_labels(plain(rj("w", pod={"nodeSelector": {POOL: "a100"}})), by_node)
    assert QUEUE not in given_labels(plain(), by_node)


def test_resource_and_node_are_of_the_same_pods() -> None:
    both = mapping(entry(accelerator={"resource": GPU, "nodeLabels": {POOL: "h100"}}))
    selecting: Object = {"nodeSelector": {POOL: "h100"}}
    assert QUEUE in given_labels(plain(rj("driver"), asking(**selecting)), both)
    assert QUEUE not in given_labels(plain(rj("driver", pod=selecting), asking()), both)


def test_a_priority_class_goes_with_its_queue() -> None:
    giver = mapping(entry("gpu", "gpu-prod", accelerator={"resource": GPU}), queue="cpu", priorityClass="standard")
    assert given_labels(plain(asking()), giver) == {QUEUE: "gpu", PRIORITY: "gpu-prod"}
    assert given_labels(plain(), giver) == {QUEUE: "cpu", PRIORITY: "standard"}
    own = plain(asking(), **{"kueue.x-k8s.io_queue-name": "mine"})
    assert given_labels(own, giver) == {QUEUE: "mine", PRIORITY: "standard"}
    same = plain(asking(), **{"kueue.x-k8s.io_queue-name": "gpu"})
    assert given_labels(same, giver) == {QUEUE: "gpu", PRIORITY: "gpu-prod"}
    without = mapping(entry("gpu", accelerator={"resource": GPU}), priorityClass="standard")
    assert given_labels(plain(asking()), without) == {QUEUE: "gpu", PRIORITY: "standard"}


def test_the_label_of_the_jobset_wins() -> None:
    own = plain(asking(), **{"kueue.x-k8s.io_queue-name": "mine", "kueue.x-k8s.io_priority-class": "low"})
    assert applied(own, mapping(entry("gpu", "high", accelerator={"resource": GPU}), queue="cpu")) == Applied()


def test_policies_that_disagree_are_one_error_that_names_both_and_the_entry() -> None:
    one = mapping(entry("x", accelerator={"resource": "amd.com/gpu"}), entry("gpu", accelerator={"resource": GPU}))
    (conflict,) = applied(plain(asking()), one, loaded(policy(name="b", defaults={"queue": "cpu"}))).conflicts
    assert conflict.path == f"metadata.labels[{QUEUE}]"
    assert "GangPolicy 'b' sets \"cpu\"" in conflict.detail
    assert "GangPolicy 'p' (spec.defaults.queues[1]) sets \"gpu\"" in conflict.detail


def test_equal_queues_of_different_entries_do_not_conflict() -> None:
    policies = mapping(entry("gpu", accelerator={"resource": GPU})), loaded(policy(name="b", defaults={"queue": "gpu"}))
    found = applied(plain(asking()), *policies)
    assert found.conflicts == ()
    (source,) = found.sources.values()
    assert (source.value, source.policies) == ("gpu", ("b", "p"))
    assert str(source) == '"gpu", default of b, p (spec.defaults.queues[0])'


def test_only_creates_are_mapped() -> None:
    raw = plain(asking())
    giver = mapping(entry(accelerator={"resource": GPU}))
    assert defaults_of([giver], review_of(raw, "UPDATE", old=raw)) == Applied()
    assert defaults_of([giver], review_of(raw)).patch == (
        {"op": "add", "path": f"/metadata/labels/{QUEUE.replace('/', '~1')}", "value": "q"},
    )


GOOD: Object = {"objectSelector": {"matchLabels": {"a": "b"}}}
REFUSED: dict[str, tuple[Object, str, ErrorKind]] = {
    "no condition": (entry(), "match", ErrorKind.REQUIRED),
    "no classes": (entry(priorityClasses=[]), "match", ErrorKind.REQUIRED),
    "an empty accelerator": (entry(accelerator={}), "match.accelerator", ErrorKind.REQUIRED),
    "an odd resource": (entry(accelerator={"resource": "a b"}), "match.accelerator.resource", ErrorKind.INVALID),
    "an odd label": (
        entry(accelerator={"nodeLabels": {"a b": "c"}}),
        "match.accelerator.nodeLabels",
        ErrorKind.INVALID,
    ),
    "an odd selector": (
        entry(objectSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
        "match.objectSelector.matchExpressions[0].values",
        ErrorKind.REQUIRED,
    ),
    "an odd class": (entry(priorityClasses=["A"]), "match.priorityClasses[0]", ErrorKind.INVALID),
    "a class twice": (entry(priorityClasses=["a", "a"]), "match.priorityClasses[1]", ErrorKind.DUPLICATE),
    "an empty queue": (entry("", **GOOD), "queue", ErrorKind.INVALID),
    "an odd queue": (entry("Team_A", **GOOD), "queue", ErrorKind.INVALID),
    "a long queue": (entry("q" * 64, **GOOD), "queue", ErrorKind.TOO_LONG),
    "an odd priority class": (entry("q", "a b", **GOOD), "priorityClass", ErrorKind.INVALID),
    "no queue": ({"match": GOOD}, "queue", ErrorKind.REQUIRED),
    "no match": ({"queue": "q"}, "match", ErrorKind.REQUIRED),
    "a word it does not know": ({**entry(**GOOD), "namespace": "a"}, "namespace", ErrorKind.FORBIDDEN),
}


@each("case", REFUSED)
def test_an_invalid_entry_is_reported_with_its_place(case: str) -> None:
    bad, path, kind = REFUSED[case]
    with pytest.raises(ValidationError) as refused:
        read_policy(policy(defaults={"queues": [entry(**GOOD), bad]}))
    assert [(each.path, each.kind) for each in refused.value.errors] == [(f"spec.defaults.queues[1].{path}", kind)]


@each("defaults", [{"queue": "q" * 64}, {"queues": [entry("q" * 64, **GOOD)]}])
def test_a_queue_that_no_label_can_name_is_refused_with_the_reason(defaults: Object) -> None:
    with pytest.raises(ValidationError, match="a label, which holds 63"):
        read_policy(policy(defaults=defaults))


def test_the_longest_valid_queue_name_is_accepted() -> None:
    assert read_policy(policy(defaults={"queue": "q" * 63})).spec.defaults is not None


def documented() -> LoadedPolicy:
    text = (Path(__file__).parents[2] / "docs" / "kueue.md").read_text(encoding="utf-8")
    section = text.partition("## Queue assignment\n")[2].partition("\n## ")[0]
    (document,) = re.findall(r"^```yaml\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    for model in (QueueChoice, QueueMatch, Accelerator):
        for name, found in model.model_fields.items():
            assert re.search(rf"[`.]{found.alias or name}`", section), name
    return loaded(yaml.safe_load(document))


@each(
    ("raw", "labels"),
    [
        pytest.param(plain(asking(nodeSelector={POOL: "nvidia-h100-80gb"})), {QUEUE: "h100", PRIORITY: "production"}),
        pytest.param(plain(asking()), {QUEUE: "gpu"}),
        pytest.param(plain(rj("w", pod={"priorityClassName": "low"})), {QUEUE: "research-spare"}),
        pytest.param(plain(), {QUEUE: "batch"}),
    ],
)
def test_the_example_of_the_documentation_maps_as_described(raw: Object, labels: Object) -> None:
    namespace: Object = {"metadata": {"name": "t", "labels": {"team": "research"}}}
    assert given_labels(raw, documented(), namespace=namespace) == labels


EVERYTHING = mapping(
    entry("a", objectSelector={"matchExpressions": [{"key": "x", "operator": "Exists"}]}),
    entry("b", priorityClasses=["high"]),
    entry("c", accelerator={"nodeLabels": {"a": "b"}}),
    entry("d", "p", accelerator={"resource": GPU, "nodeLabels": {"a": "b"}}),
    entry("e", accelerator={"resource": "cpu"}),
)


@PROPERTY
@given(hostile_jobsets(), st.none() | st.just({"metadata": {"labels": 3}}))
def test_hostile_objects_are_mapped_without_an_error(raw: Object, namespace: Object | None) -> None:
    apply(raw, list(applied(raw, EVERYTHING, namespace=namespace).patch))
