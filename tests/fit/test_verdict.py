"""Verdicts beside the golden rows: blocked and unknown ones, and the advice."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.fit.clusterstate import ClusterSnapshot, Held
from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.names import MULTIKUEUE
from gangctl.kueue.objects import (
    AdmissionCheck,
    CheckUse,
    ClusterQueue,
    Cohort,
    Condition,
    LocalQueue,
    Quota,
    ResourceFlavor,
    SelectorTerm,
)
from tests.cli.schema import fit_violations
from tests.fit.asking import CONFIGURATION, NAMESPACE, QUEUE, ask, cpu, gist, grouped, known, pods, queue, taken_flavors
from tests.fit.queues import Written, group, holder
from tests.jobsets import jobset
from tests.rows import each
from tests.strategies import PROPERTY, hostile_jobsets


class TestBlocked:
    """K20: none of these is a never, not even for a gang that could never fit."""

    def test_a_namespace_that_kueue_does_not_manage_blocks(self) -> None:
        """Kueue's webhook suspends what has the label, and its controller never admits it."""
        text = CONFIGURATION + "managedJobsNamespaceSelector: {matchLabels: {team: x}}\n"
        snapshot = known(queue(), configuration=text)
        report = ask(snapshot, cpu(99), labels={"team": "y"})
        assert gist(report) == ("not-now", "QueueBlocked")
        assert "does not manage this namespace" in report["blocked"]
        assert gist(ask(snapshot, cpu(99), labels={"team": "x"})) == ("never", "NeverExceedsQuota")

    def test_a_namespace_that_kueue_does_not_manage_gets_no_default_queue(self) -> None:
        text = CONFIGURATION + "managedJobsNamespaceSelector: {matchLabels: {team: x}}\n"
        snapshot = known(queue(), LocalQueue(NAMESPACE, "default", "a"), configuration=text)
        raw = jobset("js", cpu(99))
        assert gist(fit(FitRequest(raw, NAMESPACE, {"team": "y"}, ""), snapshot)) == ("fits", "NotQueued")
        assert gist(fit(FitRequest(raw, NAMESPACE, {"team": "x"}, ""), snapshot)) == ("never", "NeverExceedsQuota")

    STOPPED = LocalQueue(NAMESPACE, QUEUE, "a", stop_policy="Hold")
    INACTIVE = Condition(status=False, reason="FlavorNotFound", message="Can't admit new workloads: no flavor f1.")
    LOST = Condition(status=False, reason="Lost", message="gone")
    DOOR = LocalQueue(NAMESPACE, QUEUE, "a")
    NOBODY = SelectorTerm("team", "In", ("x",))

    @each(
        ("snapshot", "words"),
        [
            (ClusterSnapshot([queue()], configuration=CONFIGURATION), 'LocalQueue "q" does not exist'),
            (known(queue(), STOPPED), 'LocalQueue "q" is stopped'),
            (known(queue(stop_policy="HoldAndDrain")), 'ClusterQueue "a" is stopped'),
            (known(queue(active=INACTIVE)), 'ClusterQueue "a" is inactive (FlavorNotFound): no flavor f1'),
            (known(queue(selector=None)), "selects no namespace"),
            (known(queue(selector=(NOBODY,))), "does not match the labels"),
            (known(queue(checks=(CheckUse("m"),))), 'AdmissionCheck "m" does not exist'),
            (
                known(queue(checks=(CheckUse("m"),)), AdmissionCheck("m", "x", active=LOST)),
                '"m" is inactive (Lost): gone',
            ),
            (ClusterSnapshot([queue(), DOOR], configuration=CONFIGURATION), 'ResourceFlavor "f1" does not exist'),
            (known(queue(), queue="gone"), 'ClusterQueue "gone" of LocalQueue "q" does not exist'),
            (known(queue(cohort="c"), Cohort("c", "d"), Cohort("d", "c")), "cycle"),
        ],
    )
    def test_a_blocked_queue_means_not_now_and_not_never(self, snapshot: ClusterSnapshot, words: str) -> None:
        for count in (1, 99):
            report = ask(snapshot, cpu(count))
            assert gist(report) == ("not-now", "QueueBlocked")
            assert words in report["blocked"]
            assert words in report["message"]

    def test_unknown_namespace_labels_neither_block_nor_fit(self) -> None:
        ask_unlabelled = FitRequest(jobset("js", cpu(1)), NAMESPACE, None, QUEUE)
        report = fit(ask_unlabelled, known(queue(selector=(self.NOBODY,))))
        assert gist(report) == ("unknown", "MayFit")
        assert f"kubectl get namespace {NAMESPACE} -o yaml" in report["message"]

    @pytest.mark.parametrize(("values", "verdict"), [((NAMESPACE,), "fits"), (("other",), "not-now")])
    def test_the_name_of_a_namespace_is_known_without_its_labels(self, values: tuple[str, ...], verdict: str) -> None:
        by_name = SelectorTerm("kubernetes.io/metadata.name", "In", values)
        asked = FitRequest(jobset("js", cpu(1)), NAMESPACE, None, QUEUE)
        assert fit(asked, known(queue(selector=(by_name,))))["verdict"] == verdict


class TestMisconfigured:
    @pytest.mark.parametrize(("limit", "count", "verdict"), [(8, 9, "never"), (8, 8, "fits"), (18, 18, "fits")])
    def test_more_podsets_than_the_limit_never_fit(self, limit: int, count: int, verdict: str) -> None:
        entries = [pods(f"w{n}", 1, cpu="10m") for n in range(count)]
        report = ask(known(queue(strategy="StrictFIFO"), queue_limit=limit), *entries)
        assert report["verdict"] == verdict
        if verdict == "never":
            assert report["reason"] == "NeverMisconfigured"
            assert "at most 8" in report["message"]
            assert not report["blocking"], "no Workload is made of it"

    def test_an_unknown_podset_limit_makes_the_verdict_unknown(self) -> None:
        entries = [pods(f"w{n}", 1, cpu="10m") for n in range(19)]
        assert gist(ask(known(queue(), queue_limit=None), *entries)) == ("unknown", "Unknown")

    def test_an_unknown_podset_limit_makes_no_room(self) -> None:
        entries = [pods(f"w{n}", 0, cpu="10m") for n in range(9)]
        report = ask(known(queue(), queue_limit=None), cpu(99), *entries)
        assert gist(report) == ("never", "NeverExceedsQuota")
        assert report["unknown"] == []

    def test_a_request_above_its_limit_never_fits(self) -> None:
        entry = cpu(1)
        entry["template"]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "500m"}
        report = ask(known(queue(strategy="StrictFIFO")), entry)
        assert gist(report) == ("never", "NeverMisconfigured")
        assert report["blocking"]

    def test_a_request_above_a_limit_range_never_fits(self) -> None:
        limits = {"type": "Container", "max": {"cpu": "500m"}}
        raw = {"metadata": {"name": "l", "namespace": NAMESPACE}, "spec": {"limits": [limits]}}
        assert gist(ask(known(queue(), limit_ranges=[raw]), cpu(1))) == ("never", "NeverMisconfigured")


LENIENT = CONFIGURATION + "resources: {quotaCheckStrategy: IgnoreUndeclared}\n"


class TestUndeclared:
    """Kueue's flavorassigner returns at the first podset with requests and without a flavor."""

    @each(
        ("entries", "reason"),
        [
            ((cpu(1), pods("driver", 1, memory="1Gi")), "Fits"),
            ((pods("driver", 1, memory="1Gi"), cpu(1)), "NeverNoFlavor"),
            ((pods("driver", 1, cpu="1", memory="1Gi"), cpu(1)), "Fits"),
            ((pods("driver", 1), cpu(1)), "Fits"),
            ((pods("driver", 0, memory="1Gi"), cpu(1)), "NeverNoFlavor"),
        ],
    )
    def test_podsets_after_one_without_a_flavor_are_not_admitted(
        self, entries: Sequence[dict[str, Any]], reason: str
    ) -> None:
        report = ask(known(queue(), configuration=LENIENT), *entries)
        assert gist(report)[1] == reason
        assert ('"driver" asks only for memory' in report["message"]) is (reason == "NeverNoFlavor")

    def test_a_podset_without_pods_stops_the_assignment_as_well(self) -> None:
        assert gist(ask(known(queue()), pods("driver", 0, memory="1Gi"), cpu(1)))[1] == "NeverNoFlavor"
        assert gist(ask(known(queue()), cpu(1), pods("driver", 0, memory="1Gi")))[1] == "Fits"

    def test_the_strategy_has_no_effect_without_its_gate(self) -> None:
        text = LENIENT + "featureGates: {QuotaCheckStrategy: false}\n"
        report = ask(known(queue(), configuration=text), cpu(1, memory="1Gi"))
        assert gist(report) == ("never", "NeverUndeclaredResource")


class TestUnknown:
    """K7: what is not known turns a never into a warning that says why, and nothing else."""

    CHECKED = queue(checks=(CheckUse("m"),))

    @each(
        ("snapshot", "why"),
        [
            (known(queue(), configuration=None), "configuration"),
            (known(queue(), configuration="kind: ["), "controller_manager_config.yaml"),
            (known(queue(), unknown=lambda: ["LimitRanges (forbidden)"]), "LimitRanges (forbidden)"),
            (known(CHECKED, AdmissionCheck("m", MULTIKUEUE)), "MultiKueue"),
        ],
    )
    @each(
        "entry",
        [cpu(99), pods("w", 1, cpu="1", memory="1Gi"), pods("w", 1, {"nodeSelector": {"type": "b"}}, cpu="99")],
    )
    def test_a_missing_source_turns_never_into_unknown(
        self, snapshot: ClusterSnapshot, why: str, entry: dict[str, Any]
    ) -> None:
        report = ask(snapshot, entry)
        assert gist(report) == ("unknown", "Unknown")
        assert any(why in each for each in report["unknown"])
        assert why in report["message"]
        assert not report["blocking"]

    def test_a_fit_with_missing_sources_reports_them(self) -> None:
        report = ask(known(queue(), configuration=None), cpu(1))
        assert gist(report) == ("fits", "Fits")
        assert report["unknown"]
        assert "as far as is known" in report["message"]

    def test_multikueue_and_device_claims_make_the_verdict_unknown(self) -> None:
        assert gist(ask(known(queue()), cpu(99), managedBy=MULTIKUEUE))[0] == "unknown"
        claims = pods("w", 99, {"resourceClaims": [{"name": "g"}]}, cpu="1")
        assert gist(ask(known(queue()), claims))[0] == "unknown"

    def test_another_admission_check_does_not_change_never(self) -> None:
        report = ask(known(self.CHECKED, AdmissionCheck("m", "x")), cpu(99))
        assert (report["verdict"], report["unknown"]) == ("never", [])

    def test_transformations_of_the_configuration_are_counted(self) -> None:
        text = CONFIGURATION + (
            "resources: {transformations: [{input: example.com/slice, strategy: Replace, outputs: {cpu: 10}}]}\n"
        )
        entry = pods("w", 1, **{"example.com/slice": "2"})
        report = ask(known(queue(), configuration=text), entry)
        assert gist(report) == ("never", "NeverExceedsQuota")
        assert report["podSets"][0]["requests"] == {"cpu": 20_000}

    def test_an_exhausted_search_makes_the_verdict_unknown(self) -> None:
        sizes = [15 + 2 * n for n in range(18)]
        flavors: dict[str, dict[str, Written]] = {f"f{n}": {"cpu": (sum(sizes) // 6 + n % 2) * 1000} for n in range(6)}
        entries = [pods(f"w{size}", 1, cpu=str(size)) for size in sizes]
        raw = jobset("js", *entries)
        report = fit(FitRequest(raw, NAMESPACE, {}, QUEUE), known(queue(groups=(group(flavors),))), budget=100)
        assert gist(report) == ("unknown", "Unknown")
        assert "too many choices" in report["message"]


class TestBlocking:
    """K19: a gang that never fits stays at the head of a queue that is StrictFIFO."""

    @pytest.mark.parametrize(("strategy", "blocking"), [("StrictFIFO", True), ("BestEffortFIFO", False)])
    def test_a_gang_that_never_fits_blocks_a_strict_queue(self, strategy: str, *, blocking: bool) -> None:
        report = ask(known(queue(strategy=strategy)), cpu(11))
        assert gist(report) == ("never", "NeverExceedsQuota")
        assert report["blocking"] == blocking
        assert ("block every workload behind it" in report["message"]) == blocking

    def test_a_waiting_gang_does_not_block(self) -> None:
        snapshot = known(queue(strategy="StrictFIFO"), holder("u", "a", {("f1", "cpu"): 8000}))
        assert not ask(snapshot, cpu(10))["blocking"]

    def test_a_gang_that_only_fits_reordered_blocks(self) -> None:
        flavors = (group({"f1": {"cpu": 7000}, "f2": {"cpu": 2000}}),)
        report = ask(known(queue(groups=flavors, strategy="StrictFIFO")), cpu(1, "u"), cpu(4, "v"), cpu(3))
        assert gist(report) == ("not-now", "FitsReordered")
        assert (report["blocking"], report["reorder"]) == (True, True)
        assert taken_flavors(report) == ["f2", "f1", "f1"]
        assert "list the replicated jobs as v, w, u" in report["message"]


class TestOrder:
    FLAVORS = (group({"f1": {"cpu": 10_000}, "f2": {"cpu": 6000}}),)

    def test_a_gang_that_fits_at_a_later_try_is_advised_to_reorder(self) -> None:
        report = ask(known(queue(groups=self.FLAVORS, strategy="StrictFIFO")), cpu(6, "v"), cpu(10))
        assert gist(report) == ("fits", "FitsReordered")
        assert (report["blocking"], report["reorder"]) == (False, True)
        assert "list the replicated jobs as w, v" in report["message"]

    def test_an_unlimited_flavor_makes_a_replicated_job_no_larger(self) -> None:
        flavors = (group({"f1": {"cpu": 10_000, "x/gpu": 1}, "f2": {"cpu": UNLIMITED, "x/gpu": 0}}),)
        report = ask(known(queue(groups=flavors)), cpu(6, "v"), pods("w", 1, cpu="10", **{"x/gpu": "1"}))
        assert gist(report) == ("fits", "FitsReordered")
        assert "list the replicated jobs as w, v" in report["message"]

    def test_reordering_is_not_advised_if_a_dependency_needs_the_order(self) -> None:
        later = {**cpu(10), "dependsOn": [{"name": "v", "status": "Ready"}]}
        report = ask(known(queue(groups=self.FLAVORS)), cpu(6, "v"), later)
        assert report["reorder"]
        assert "nodeSelector" in report["message"]

    def test_reordering_is_reported_for_a_waiting_gang(self) -> None:
        report = ask(known(queue(groups=self.FLAVORS), holder("u", "a", {("f1", "cpu"): 1})), cpu(6, "v"), cpu(10))
        assert gist(report) == ("not-now", "WaitsForQuota")
        assert report["reorder"]


class TestAdvice:
    def test_lending_limits_of_others_are_named(self) -> None:
        lender = queue("b", cohort="c", groups=(group({"f1": {"cpu": (10_000, None, 2000)}}),))
        report = ask(known(queue(cohort="c"), lender), cpu(20))
        assert gist(report) == ("never", "NeverExceedsQuota")
        words = 'all that Cohort "c" has beyond the lendingLimit of ClusterQueue "b"'
        assert words in report["message"]
        assert report["limits"][0]["limit"] == words

    @each(
        ("flavors", "entries", "words"),
        [
            ({"f1": 10}, [cpu(12)], '2 cpu more in flavor "f1" would do, and so would 10 pods instead of 12'),
            ({"f1": 4, "f2": 10}, [cpu(12)], '2 cpu more in flavor "f2" would do'),
            ({"f1": 10, "f2": 10}, [cpu(7, "u"), cpu(7, "v"), cpu(7)], '4 cpu more in flavor "f1" would do'),
            ({"f1": 10, "f2": 10}, [cpu(7, "u"), cpu(7, "v"), cpu(7)], '21 cpu together, and flavors "f1" and "f2"'),
            ({"f1": 10, "f2": 10}, [cpu(6, "u"), cpu(6, "v"), cpu(6)], '2 cpu more in flavor "f1" would do'),
        ],
    )
    def test_the_advice_names_the_least_quota_that_helps(
        self, flavors: Mapping[str, int], entries: Sequence[Any], words: str
    ) -> None:
        quotas: dict[str, dict[str, Written]] = {name: {"cpu": amount * 1000} for name, amount in flavors.items()}
        report = ask(known(queue(groups=(group(quotas),))), *entries)
        assert report["verdict"] == "never"
        assert words in report["message"]

    def test_the_advice_names_several_resources_of_a_flavor(self) -> None:
        groups = (group({"f1": {"cpu": 10_000, "memory": 2**30}}),)
        report = ask(known(queue(groups=groups)), cpu(11, memory="1Gi"))
        assert '1 cpu and 10Gi memory more in flavor "f1" would do' in report["message"]

    @pytest.mark.parametrize("more", [0, 1])
    def test_the_advised_quota_is_sufficient_and_minimal(self, more: int) -> None:
        """The advice carried out, and all but a thousandth of it."""
        entries = [cpu(7, "u"), cpu(7)]
        quotas: dict[str, dict[str, Written]] = {"f1": {"cpu": 10_000}, "f2": {"cpu": 6000}}
        assert '1 cpu more in flavor "f2" would do' in ask(known(queue(groups=(group(quotas),))), *entries)["message"]
        quotas["f2"] = {"cpu": 6999 + more}
        assert (ask(known(queue(groups=(group(quotas),))), *entries)["verdict"] == "fits") == bool(more)


UNIT = 1000
FLAVORS = ("f1", "f2")
COHORTS = ("", "c", "d")
amounts = st.integers(0, 8)
bounds = st.none() | st.integers(0, 6)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Held], list[dict[str, Any]]]:
    """A queue in up to three levels of cohorts with siblings, flavors with labels, and a gang."""
    flavors: list[Held] = [ResourceFlavor(name, node_labels={"type": name}) for name in FLAVORS]

    def quotas(*, limited: bool) -> Any:
        one = {
            name: {"cpu": (draw(amounts) * UNIT, _milli(draw(bounds)), _milli(draw(bounds)))}
            if limited
            else {"cpu": draw(amounts) * UNIT}
            for name in FLAVORS
        }
        return (group(one),)

    parent = draw(st.sampled_from(COHORTS))
    held: list[Held] = [queue("a", parent, groups=quotas(limited=bool(parent)))]
    for name in "bz"[: draw(st.integers(0, 2))]:
        cohort = draw(st.sampled_from(COHORTS))
        held.append(queue(name, cohort, groups=quotas(limited=bool(cohort))))
    if draw(st.booleans()):
        held.append(Cohort("d", "c", quotas(limited=True)))
    if draw(st.booleans()):
        held.append(Cohort("c", "", quotas(limited=False)))
    for number in range(draw(st.integers(0, 2))):
        held.append(holder(str(number), "a", {(draw(st.sampled_from(FLAVORS)), "cpu"): draw(amounts) * UNIT}))
    entries = []
    for number in range(draw(st.integers(1, 4))):
        choice = draw(st.sampled_from([None, None, *FLAVORS, "none"]))
        spec = {} if choice is None else {"nodeSelector": {"type": choice}}
        entries.append(pods(f"w{number}", draw(st.integers(0, 5)), spec, cpu=str(draw(st.integers(0, 4)))))
    return [*held, *flavors], entries


def _milli(bound: int | None) -> int | None:
    return None if bound is None else bound * UNIT


def ceilings(held: Sequence[Held]) -> dict[str, int]:
    """The definition, once more and from the top: subtree, local and ceiling of each node."""
    queues = {each.name: each for each in held if isinstance(each, ClusterQueue)}
    cohorts = {each.name: each for each in held if isinstance(each, Cohort)}

    def quota(node: ClusterQueue | Cohort | None, flavor: str) -> Quota:
        groups = node.groups if node is not None else ()
        found = (each.resources["cpu"] for one in groups for each in one.flavors if each.name == flavor)
        return next(found, Quota())

    def below(cohort: str, flavor: str) -> int:
        total = quota(cohorts.get(cohort), flavor).nominal
        members = [(quota(q, flavor), quota(q, flavor).nominal) for q in queues.values() if q.cohort == cohort]
        inner = [(quota(c, flavor), below(c.name, flavor)) for c in cohorts.values() if c.parent == cohort]
        for own, subtree in [*members, *inner]:
            lent = own.lending_limit
            total += subtree - (0 if lent is None else max(0, subtree - lent))
        return total

    def ceiling(node: ClusterQueue | Cohort | None, parent: str, subtree: int, flavor: str) -> int:
        if not parent:
            return subtree
        own = quota(node, flavor)
        local = 0 if own.lending_limit is None else max(0, subtree - own.lending_limit)
        above = cohorts.get(parent)
        most = local + ceiling(above, above.parent if above else "", below(parent, flavor), flavor)
        return most if own.borrowing_limit is None else min(most, subtree + own.borrowing_limit)

    a = queues["a"]
    return {flavor: ceiling(a, a.cohort, quota(a, flavor).nominal, flavor) for flavor in FLAVORS}


def possible(held: Sequence[Held], entries: Sequence[dict[str, Any]]) -> bool:
    """Brute force: every choice of flavors for every podset; also one that asks for nothing needs a flavor."""
    most = ceilings(held)
    options, sizes = [], []
    for entry in entries:
        job = entry["template"]["spec"]
        spec = job["template"]["spec"]
        size = int(spec["containers"][0]["resources"]["requests"]["cpu"]) * job["parallelism"] * UNIT
        wanted = spec.get("nodeSelector", {}).get("type")
        options.append([flavor for flavor in FLAVORS if wanted in {None, flavor}])
        sizes.append(size)
    for choice in itertools.product(*options):
        sums = dict.fromkeys(FLAVORS, 0)
        for flavor, size in zip(choice, sizes, strict=True):
            sums[flavor] += size
        if all(sums[flavor] <= most[flavor] for flavor in FLAVORS):
            return True
    return False


class TestProperties:
    @PROPERTY
    @given(worlds())
    def test_never_agrees_with_brute_force(self, world: tuple[list[Held], list[dict[str, Any]]]) -> None:
        """K6: not one refusal where an assignment exists, whatever is in use, nor one missing."""
        held, entries = world
        report = ask(known(*held), *entries)
        assert fit_violations(report) == []
        assert (report["verdict"] == "never") == (not possible(held, entries)), report["message"]
        assert report["verdict"] != "unknown"

    @PROPERTY
    @given(hostile_jobsets())
    def test_any_jobset_has_a_verdict(self, raw: dict[str, Any]) -> None:
        report = fit(FitRequest(raw, NAMESPACE, {}, QUEUE), known(queue()))
        assert fit_violations(report) == []

    def test_pods_that_ask_for_nothing_of_a_resource_get_a_flavor_for_it(self) -> None:
        repelled = ResourceFlavor("f2", taints=({"key": "gpu", "effect": "NoSchedule"},))
        held = queue(groups=(group({"f1": {"cpu": 10_000}}), group({"f2": {"gpu": 8}}))), repelled
        spec = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
        fits = ask(known(*held), pods("w", 1, spec, cpu="1", gpu="0"), {**pods("v", 1, spec, gpu="1"), "replicas": 0})
        assert [*taken_flavors(fits), *taken_flavors(fits, "gpu")] == ["f1", "", "f2", "f2"]
        assert gist(ask(known(*held), pods("w", 1, cpu="1", gpu="0"))) == ("never", "NeverNoFlavor")
        none = {**pods("v", 1, gpu="1"), "replicas": 0}
        assert gist(ask(known(*held), cpu(1), none)) == ("never", "NeverNoFlavor")
        # That no resource group has it does not matter.
        assert gist(ask(known(*held), cpu(1, memory="0"))) == ("fits", "Fits")

    def test_podsets_of_a_group_get_one_flavor(self) -> None:
        flavors = (group({"f1": {"cpu": 10_000}, "f2": {"cpu": 10_000}}),)
        topologies = [ResourceFlavor(name, topology="t") for name in FLAVORS]
        snapshot = known(queue(groups=flavors), *topologies)
        leader = pods("v", 1, cpu="6")
        apart = ask(snapshot, leader, cpu(6))
        together = ask(snapshot, grouped(leader, "g"), grouped(cpu(4), "g"))
        assert taken_flavors(apart) == ["f1", "f2"]
        assert taken_flavors(together) == ["f1", "f1"]
