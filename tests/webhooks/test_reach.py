"""The webhooks of policies are sent what any policy can match, and not the JobSets of teams that no policy is about."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.labelselector import NAMESPACE_NAME, selector_object_test
from gangctl.policy.defaults import defaults_of, is_conditional
from gangctl.policy.loaded import BrokenPolicy, LoadedPolicy, PolicySet
from gangctl.policy.model import MatchCondition
from gangctl.policy.review import Operation, Review, matches
from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_policy_configurations
from gangctl.webhooks.policies import demand_of
from tests.jobsets import jobset, rj
from tests.webhooks.test_policies import PARAMETERS, RESOURCE, broken, defaulting, loaded, rules

SETTINGS = WebhookSettings(Endpoint(url="https://127.0.0.1:9443"))
MUTATES, VALIDATES = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"

Labels = dict[str, str]


def sent(policies: PolicySet, operation: str, namespace: Labels, objects: list[Labels]) -> dict[str, list[str]]:
    """The failurePolicy of each webhook that an API server calls, by kind; ``objects`` are the labels, new and old."""
    called: dict[str, list[str]] = {MUTATES: [], VALIDATES: []}
    for configuration in build_policy_configurations(SETTINGS, demand_of(policies), b""):
        for hook in configuration["webhooks"]:
            selects = selector_object_test(hook["objectSelector"])
            if (
                operation in hook["rules"][0]["operations"]
                and selector_object_test(hook["namespaceSelector"])(namespace)
                and any(map(selects, objects))
            ):
                called[configuration["kind"]].append(hook["failurePolicy"])
    return called


VALUES = ("a", "b", "")
KEYS = (NAMESPACE_NAME, "team", "env")
TERMS = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(("In", "NotIn")),
            "values": st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True),
        }
    ),
    st.fixed_dictionaries({"key": st.sampled_from(KEYS), "operator": st.sampled_from(("Exists", "DoesNotExist"))}),
)
LABELS = st.dictionaries(st.sampled_from(KEYS[1:]), st.sampled_from(VALUES), max_size=2)
SELECTORS = st.fixed_dictionaries({}, optional={"matchLabels": LABELS, "matchExpressions": st.lists(TERMS, max_size=2)})
CONSTRAINTS = st.fixed_dictionaries(
    {
        "namespaceSelector": SELECTORS,
        "objectSelector": st.one_of(st.just({}), SELECTORS),
        "operations": st.lists(
            st.sampled_from(("CREATE", "UPDATE", "DELETE", "*")), min_size=1, max_size=2, unique=True
        ),
    }
)
FAILURE = st.sampled_from(("Fail", "Ignore"))
REVIEWED: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE")


def constrained(drawn: dict[str, Any]) -> dict[str, Any]:
    selectors = {key: drawn[key] for key in ("namespaceSelector", "objectSelector")}
    return {**selectors, **rules(*drawn["operations"])}


@st.composite
def checking(draw: st.DrawFn) -> LoadedPolicy | BrokenPolicy:
    name = f"p{draw(st.integers(0, 10**9))}"
    spec: dict[str, Any] = {"failurePolicy": draw(FAILURE), "matchConstraints": constrained(draw(CONSTRAINTS))}
    return broken(name, **spec) if draw(st.integers(0, 2)) == 2 else loaded(name, **spec)


@st.composite
def with_defaults(draw: st.DrawFn) -> LoadedPolicy:
    queue = st.fixed_dictionaries({"match": st.fixed_dictionaries({}, optional={
        "namespaceSelector": SELECTORS, "objectSelector": SELECTORS, "accelerator": st.just({"resource": "gpu"}),
    }), "queue": st.just("q")})  # fmt: skip
    defaults: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {"queues": st.lists(queue, max_size=2)},
            optional={"queue": st.just("q"), "gangMode": st.just("Gang"), "priorityClass": st.just("high")},
        )
    )
    policy = defaulting(f"d{draw(st.integers(0, 10**9))}", draw(FAILURE), **defaults)
    parameters: dict[str, Any] = PARAMETERS if draw(st.booleans()) else {}
    drawn = loaded("x", matchConstraints=constrained(draw(CONSTRAINTS)), **parameters).spec
    condition = MatchCondition(name="c", expression="true")
    conditions = (condition,) if draw(st.booleans()) else ()
    further: dict[str, Any] = {"match_constraints": drawn.match_constraints, "match_conditions": conditions}
    further |= {"param_kind": drawn.param_kind, "param_ref": drawn.param_ref}
    return replace(policy, spec=policy.spec.model_copy(update=further))


@st.composite
def reviews(draw: st.DrawFn) -> tuple[Review, Labels, list[Labels]]:
    operation = draw(st.sampled_from(REVIEWED))
    name = draw(st.sampled_from(VALUES[:2]))
    namespace = {NAMESPACE_NAME: name, **draw(LABELS)}
    labels = [draw(LABELS), draw(LABELS)]
    new, old = ({**jobset("js", rj("w", 1, 2, 2))} for _ in labels)
    for raw, own in zip((new, old), labels, strict=True):
        raw["metadata"] = {**raw["metadata"], "labels": own}
    present = {"CREATE": (new, None), "UPDATE": (new, old), "DELETE": (None, old)}[operation]
    request = {"resource": RESOURCE, "namespace": name, "name": "js", "operation": operation}
    review = Review(
        operation,
        datetime(2026, 1, 1, tzinfo=UTC),
        request,
        present[0],
        present[1],
        {"metadata": {"name": name, "labels": namespace}},
    )
    return review, namespace, [own for raw, own in zip(present, labels, strict=True) if raw is not None]


@given(st.lists(checking(), max_size=4, unique_by=lambda policy: policy.name), reviews())
def test_what_a_policy_matches_is_sent_once_and_to_a_webhook_of_its_failure_policy(
    policies: list[LoadedPolicy | BrokenPolicy], asked: tuple[Review, Labels, list[Labels]]
) -> None:
    review, namespace, objects = asked
    whole = tuple(policy for policy in policies if isinstance(policy, LoadedPolicy))
    rest = tuple(policy for policy in policies if isinstance(policy, BrokenPolicy))
    called = sent(PolicySet(1, whole, broken=rest), review.operation, namespace, objects)[VALIDATES]
    matching = [policy for policy in policies if not matches(policy, review)]
    assert len(called) <= 1
    assert called or not matching
    assert called == ["Fail"] or not any(policy.fail_closed for policy in matching)


@given(st.lists(with_defaults(), max_size=4, unique_by=lambda policy: policy.name), reviews())
def test_what_gets_a_default_is_sent_once_and_to_a_webhook_of_the_strictest_policy(
    policies: list[LoadedPolicy], asked: tuple[Review, Labels, list[Labels]]
) -> None:
    review, namespace, objects = asked
    if review.operation != "CREATE":
        return
    called = sent(PolicySet(1, tuple(policies)), "CREATE", namespace, objects)[MUTATES]
    assert len(called) <= 1
    for policy in policies:
        if matches(policy, review):
            continue
        # A conditional one can refuse also what it gives no default to.
        applied = defaults_of([policy], review)
        if applied.patch or is_conditional(policy):
            assert called == ["Fail"] or (called and not policy.fail_closed)


def research(**more: Any) -> dict[str, Any]:
    return {"matchConstraints": {"namespaceSelector": {"matchLabels": {"team": "research"}}, **more}}


RESEARCH, OTHER = {NAMESPACE_NAME: "r", "team": "research"}, {NAMESPACE_NAME: "other"}


def test_jobsets_of_other_namespaces_do_not_wait_for_a_policy_of_one() -> None:
    for policy in (loaded("a", **research()), broken("a", failurePolicy="Fail", **research())):
        whole, rest = ((policy,), ()) if isinstance(policy, LoadedPolicy) else ((), (policy,))
        held = PolicySet(1, whole, broken=rest)
        assert sent(held, "CREATE", RESEARCH, [{}])[VALIDATES] == ["Fail"]
        assert sent(held, "CREATE", OTHER, [{}])[VALIDATES] == []


def test_jobsets_of_other_namespaces_do_not_wait_for_a_queue_map() -> None:
    queues = [
        {"match": {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: name}}}, "queue": "q"} for name in ("r", "s")
    ]
    held = PolicySet(1, (defaulting("a", queues=queues),))
    assert sent(held, "CREATE", RESEARCH, [{}])[MUTATES] == ["Fail"]
    assert sent(held, "CREATE", {NAMESPACE_NAME: "s"}, [{}])[MUTATES] == ["Fail"]
    assert sent(held, "CREATE", OTHER, [{}])[MUTATES] == []
    # A queue for the rest is for every namespace.
    assert sent(PolicySet(1, (defaulting("a", queues=queues, queue="x"),)), "CREATE", OTHER, [{}])[MUTATES] == ["Fail"]


def test_beside_policies_for_everything_only_the_namespaces_of_the_strict_one_wait() -> None:
    lenient = loaded("b", failurePolicy="Ignore", matchConstraints=rules("CREATE", "UPDATE"))
    held = PolicySet(1, (loaded("a", **research()), lenient))
    assert sent(held, "CREATE", RESEARCH, [{}])[VALIDATES] == ["Fail"]
    assert sent(held, "UPDATE", RESEARCH, [{}])[VALIDATES] == ["Ignore"]
    assert sent(held, "CREATE", OTHER, [{}])[VALIDATES] == ["Ignore"]


def test_a_lenient_policy_sees_all_that_the_strict_one_does_not_select() -> None:
    labels = {"objectSelector": {"matchLabels": {"size": "big"}}}
    held = PolicySet(1, (loaded("a", **research(**labels)), loaded("b", failurePolicy="Ignore")))
    assert sent(held, "CREATE", RESEARCH, [{"size": "small"}])[VALIDATES] == ["Fail"]
    assert sent(held, "CREATE", OTHER, [{"size": "small"}])[VALIDATES] == ["Ignore"]


def test_labels_of_jobsets_that_no_policy_selects_are_not_sent() -> None:
    held = PolicySet(1, (loaded("a", matchConstraints={"objectSelector": {"matchLabels": {"size": "big"}}}),))
    assert sent(held, "CREATE", OTHER, [{"size": "big"}])[VALIDATES] == ["Fail"]
    assert sent(held, "CREATE", OTHER, [{"size": "small"}])[VALIDATES] == []


def test_a_wrong_selector_of_a_broken_policy_is_not_registered() -> None:
    """API servers would refuse the whole configuration."""
    wrong = {"namespaceSelector": {"matchLabels": {"no key": "a"}}}
    held = PolicySet(1, broken=(broken("a", failurePolicy="Fail", matchConstraints=wrong),))
    assert sent(held, "CREATE", OTHER, [{}])[VALIDATES] == ["Fail"]
