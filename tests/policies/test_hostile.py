"""No JobSet that breaks a shipped policy gets past it in other words: not at admission, in files, or in a scan."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest

from gangctl.api.jsonpatch import apply
from gangctl.apiserver import structural
from gangctl.apiserver.jobsets import jobset_schema
from gangctl.apiserver.jobsetwebhook import validate_update
from gangctl.cel.meter import StepMeter
from gangctl.cli.policy.requests import FileCatalogue, Fit, RequestSetting, fit_of
from gangctl.cli.queuefiles import read_stock
from gangctl.fit.report import FitReport
from gangctl.gang.admission import read_opted_in, stamp_patch
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.manager.policies import ReplicaScanView
from gangctl.policy import evaluate as evaluation
from gangctl.policy import variables
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedPolicy, PolicySet
from gangctl.policy.review import Review
from gangctl.policy.variables import ParamCatalogue
from gangctl.policy.verdict import Outcome, merge
from gangctl.webhooks.configurations import Endpoint, WebhookSettings
from gangctl.webhooks.policies import PolicyAdmission
from gangctl.webhooks.review import AdmissionRequest, Kind
from tests.cli.run import gangctl
from tests.policies.hostile import Attempt, attempts, bases, earlier, exhausting, stored
from tests.policies.pack import Object, Shipped, shipped
from tests.rows import each

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
SEEDS: Final = range(3)
MORE: Final = range(3, 8)
RESOURCE: Final = ("jobset.x-k8s.io", "v1alpha2", "jobsets")


def enforced(document: Object, failure_policy: str = "Fail") -> Object:
    """The policy as the component ``deny`` makes it, or with another failurePolicy."""
    return {**document, "spec": {**document["spec"], "validationActions": ["Deny"], "failurePolicy": failure_policy}}


@dataclass
class Ground:
    """A cluster with one policy: what its webhook and its scan read."""

    shipped: Shipped
    policy: LoadedPolicy

    @property
    def in_force(self) -> PolicySet:
        return PolicySet(1, (self.policy,))

    @property
    def catalogue(self) -> ParamCatalogue:
        return FileCatalogue(self.shipped.params)

    def cluster_rules(self) -> ClusterRules:
        return ClusterRules()

    def fit(self, raw: Mapping[str, Any], namespace: str, *, new: bool = True) -> FitReport:
        del new
        return queues(self.shipped)(dict(raw), namespace)

    def now(self) -> datetime:
        return NOW

    async def namespace(self, name: str) -> Object | None:
        return next(each for each in self.shipped.namespaces if each["metadata"]["name"] == name)

    async def evaluate(self, review: Review, policies: Collection[str] | None = None) -> tuple[Outcome, ...]:
        del policies
        # Time stands still: only steps count, and how fast the machine is does not matter.
        return (Evaluation(review).evaluate(self.policy, StepMeter.request(lambda: 0.0)),)


@cache
def queues(policy: Shipped) -> Fit:
    setting = RequestSetting(now=NOW)
    return fit_of(read_stock([str(policy.home / path) for path in policy.suite.queues]), setting)


def asked(raw: Object, old: Object | None, *, dry_run: bool) -> AdmissionRequest:
    """What the API server asks of the webhook."""
    name, namespace = str(raw["metadata"].get("name", "")), str(raw["metadata"]["namespace"])
    operation: Any = "CREATE" if old is None else "UPDATE"
    variable = {
        "operation": operation,
        "name": name,
        "namespace": namespace,
        "resource": dict(zip(("group", "version", "resource"), RESOURCE, strict=True)),
        "dryRun": dry_run,
        "userInfo": {"username": "tenant"},
    }
    kind = Kind(*RESOURCE[:2], "JobSet")
    return AdmissionRequest("uid", operation, kind, namespace, name, object=raw, old_object=old, variable=variable)


def scan_of(ground: Ground) -> ReplicaScanView:
    """A scan of what exists, by the policy."""
    return ReplicaScanView(ground, list, WebhookSettings(Endpoint(url="https://127.0.0.1:1")))


def allowed_in_files(document: Object, policy: Shipped, made: Sequence[Attempt], directory: Path) -> list[Attempt]:
    """Those that ``gangctl policy eval`` allows."""
    found: list[Attempt] = []
    for update in (False, True):
        some = [each for each in made if (each.old is not None) is update]
        if not some:
            continue
        subjects, before = directory / f"subjects-{update}.json", directory / f"old-{update}.json"
        subjects.write_text(listed(renamed(each.raw, number) for number, each in enumerate(some)))
        before.write_text(listed(renamed(each.old or {}, number) for number, each in enumerate(some)))
        (directory / "policy.json").write_text(json.dumps(document))
        flags = ["--policy", str(directory / "policy.json"), "-f", str(subjects), "-o", "json"]
        flags += [part for path in policy.suite.params for part in ("--params", str(policy.home / path))]
        flags += [part for path in policy.suite.queues for part in ("--queues", str(policy.home / path))]
        flags += [part for path in policy.suite.namespaces for part in ("--namespace-object", str(policy.home / path))]
        flags += ["--operation", "UPDATE", "--old", str(before)] if update else []
        answer = gangctl("policy", "eval", *flags)
        assert answer.code in {0, 1}, answer.err
        verdicts = answer.json["items"] if len(some) > 1 else [answer.json]
        assert len(verdicts) == len(some)
        found += [each for each, verdict in zip(some, verdicts, strict=True) if verdict["allowed"]]
    return found


def listed(objects: Iterable[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def renamed(raw: Object, number: int) -> Object:
    """With a name of its own, or a prefix."""
    if not raw:
        return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"none-{number}"}}
    key = "generateName" if "generateName" in raw["metadata"] else "name"
    return {**raw, "metadata": {**raw["metadata"], key: f"n{number}-x"}}


def decided(raw: Object) -> Object:
    """A new JobSet as the webhook for gangs leaves it, which comes before policies."""
    jobset, errors = read_opted_in(raw)
    return raw if errors else apply(raw, stamp_patch(raw, resolve(jobset, ClusterRules()).stamps))


async def allowed_in_a_cluster(ground: Ground, made: Sequence[Attempt]) -> dict[str, list[Attempt]]:
    """Those that the webhook admits, every second one as a dry run, and those in which a scan finds nothing wrong."""
    found: dict[str, list[Attempt]] = {"webhook": [], "scan": []}
    scan = scan_of(ground)
    for number, attempt in enumerate(made):
        raw, old = stored(attempt.raw, attempt.old), None if attempt.old is None else stored(attempt.old)
        if raw is None:
            continue
        request = asked(raw if old is not None else decided(raw), old, dry_run=number % 2 == 1)
        if (await PolicyAdmission(ground).validate_or_refuse(request)).allowed:
            found["webhook"].append(attempt)
        if old is None and ground.policy.spec.background:
            outcomes = await scan.evaluate(raw)
            assert outcomes is not None
            if merge(outcomes).allowed:
                found["scan"].append(attempt)
    return found


def evasions(
    policy: Shipped, document: Object, made: Sequence[Attempt], files: Path | None = None
) -> dict[str, list[str]]:
    """What the webhook, a scan, and with a directory for files the command line do not refuse."""
    found = asyncio.run(allowed_in_a_cluster(Ground(policy, load_policy(document)), made))
    if files is not None:
        found["files"] = allowed_in_files(document, policy, made, files)
    return {where: list(map(str, passed)) for where, passed in found.items() if passed}


@pytest.mark.parametrize(
    "seeds", [pytest.param(SEEDS, id="few"), pytest.param(MORE, id="more", marks=pytest.mark.full("a search"))]
)
@each("policy", shipped(), ids=lambda policy: policy.name)
def test_a_hostile_tenant_is_refused(policy: Shipped, seeds: range, tmp_path: Path) -> None:
    made = list(attempts(policy, seeds))
    assert evasions(policy, enforced(policy.document), made, tmp_path) == {}
    assert sum(stored(each.raw) is not None for each in made) * 2 >= len(made), (
        "half of the attempts at least are valid"
    )


LATER: Final = {
    "queue-on-jobset-only": "Kueue does not read these annotations of a JobSet",
    "queue-suspended": "Kueue starts a JobSet by the same update",
}
"""Policies about what can change later, and why they do not evaluate the change."""


async def admits(ground: Ground, raw: Object, old: Object | None) -> bool:
    raw = raw if old is not None else decided(raw)
    return (await PolicyAdmission(ground).validate_or_refuse(asked(raw, old, dry_run=False))).allowed


async def test_what_breaks_a_policy_cannot_be_brought_in_by_an_update() -> None:
    passed = set()
    for policy in shipped():
        ground = Ground(policy, load_policy(enforced(policy.document)))
        for _, base, old in bases(policy):
            if old is not None or (raw := stored(base)) is None:
                continue
            for before in filter(None, map(stored, earlier(base))):
                reachable = not validate_update(raw, before, {"ElasticJobSet": True})
                if reachable and await admits(ground, before, None) and await admits(ground, raw, before):
                    passed.add(policy.name)
    assert passed == LATER.keys()


SETTLED: Final = ("failurePolicy", "network", "startupPolicy", "successPolicy")
"""Fields that the definition of JobSets calls immutable: a rule about what was there before and is there afterwards."""


def is_accepted(raw: Object, old: Object) -> bool:
    """Whether JobSet and its definition accept an update."""
    return not validate_update(raw, old, {}) and not structural.validate(raw, jobset_schema(), old)


def without(raw: Object, field: str) -> Object:
    return {**raw, "spec": {key: raw["spec"][key] for key in raw["spec"].keys() - {field}}}


def unchecked(raw: Object, field: str) -> Iterator[Object]:
    """A stored JobSet, and what of the field only a later update may say.

    JobSet asks for the feature gate of a strategy, and enables host names, when it is created.
    """
    yield raw
    value = raw["spec"][field]
    if field == "failurePolicy":
        yield {**raw, "spec": {**raw["spec"], field: {**value, "restartStrategy": "InPlaceRestart"}}}
    if field == "network":
        left = {key: setting for key, setting in value.items() if key != "enableDNSHostnames"}
        yield {**raw, "spec": {**raw["spec"], field: {"subdomain": "x", **left}}}


@each("field", SETTLED)
async def test_what_breaks_a_policy_cannot_be_brought_in_by_two_updates(field: str) -> None:
    about = [each for each in shipped() if any(field in text for text in each.expressions)]
    assert about
    for policy in about:
        ground = Ground(policy, load_policy(enforced(policy.document)))
        found = [(name, raw) for name, raw, old in bases(policy) if old is None and field in raw["spec"]]
        for name, base in found:
            # As it is created, with the default of the field; without the field; and as it would be refused.
            refused, created = stored(base), stored(without(base, field))
            if refused is None or created is None:
                continue  # what JobSet refuses
            taken = without(created, field)
            assert is_accepted(taken, created)
            for raw in unchecked(refused, field):
                assert is_accepted(raw, taken)
                states = ((created, None), (taken, created), (raw, taken))
                assert not all([await admits(ground, *state) for state in states]), f"{policy.name}: {name}"


COSTLY: Final = ("gang-accelerators", "images-pinned", "resource-requests")
"""Those of which each rule reads every container."""


@each("name", COSTLY)
def test_a_jobset_that_is_costly_to_evaluate_is_refused_with_failure_policy_ignore(name: str, tmp_path: Path) -> None:
    (policy,) = (each for each in shipped() if each.name == name)
    files = tmp_path if name == COSTLY[0] else None
    assert evasions(policy, enforced(policy.document, "Ignore"), [exhausting(policy)], files) == {}


Documents = Callable[[Object], Object]


def with_a_plan(document: Object) -> Object:
    """As the pack was: a condition that skips what has no plan."""
    condition = {"name": "has-a-plan", "expression": "gang != null"}
    spec = document["spec"]
    return {**document, "spec": {**spec, "matchConditions": [condition, *spec.get("matchConditions", [])]}}


def reading(old: str, new: str) -> Documents:
    """The expressions with another text in them."""
    return lambda document: cast("Object", json.loads(json.dumps(document).replace(old, new)))


@contextmanager
def plan_or_nothing() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variables, "_unplanned", lambda _: None)
        yield


@contextmanager
def budgets_excused() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "EXHAUSTED", frozenset())
        yield


@contextmanager
def nothing_else() -> Iterator[None]:
    yield


PLANS: Final = tuple(each.name for each in shipped() if each.reads("gang"))
MUTANTS: Final[dict[str, tuple[tuple[str, ...], Documents, Callable[[], AbstractContextManager[None]], str]]] = {
    "P1: no plan is no gang": (PLANS, with_a_plan, plan_or_nothing, "Fail"),
    "P2: failurePolicy excuses the budget": (
        COSTLY,
        lambda document: document,
        budgets_excused,
        "Ignore",
    ),
    "P6: init containers are not read": (
        COSTLY,
        reading("initContainers", "ephemeralContainers"),
        nothing_else,
        "Fail",
    ),
    "P6: Kueue's priority label is not read": (
        ("priority-classes",),
        reading("kueue.x-k8s.io/priority-class", "kueue.x-k8s.io/priority"),
        nothing_else,
        "Fail",
    ),
    "a gang of one pod is a gang": (
        ("gang-accelerators",),
        reading("minCount < 2", "minCount < 1"),
        nothing_else,
        "Fail",
    ),
    "devices have one name": (
        ("gang-accelerators",),
        reading("aws.amazon.com/neuron", "example.org/neuron"),
        nothing_else,
        "Fail",
    ),
    "gangs that start together are small": (
        ("gang-size-limit",),
        reading("gang.composite != null || gang.groups.size() < 2", "gang.groups.size() < 2"),
        nothing_else,
        "Fail",
    ),
    "gangs that start together are gangs of one Job": (
        ("coordinator-set", "gang-restart-strategy"),
        reading("gangctl.dev/gang-options", "gangctl.dev/options"),
        nothing_else,
        "Fail",
    ),
    "negative replicas count": (
        ("coordinator-set",),
        reading(".filter(jobs, jobs > 0)", ""),
        nothing_else,
        "Fail",
    ),
    "gangConfig is not read": (
        ("coordinator-set", "gang-not-sequenced", "gang-peers-resolvable", "gang-restart-strategy"),
        reading("gangConfig", "gangConfiguration"),
        nothing_else,
        "Fail",
    ),
    "gangs of one ReplicatedJob are not read": (
        ("coordinator-set", "gang-restart-strategy"),
        reading("rj.?replicas.orValue(1) > 1", "rj.?replicas.orValue(1) < 0"),
        nothing_else,
        "Fail",
    ),
    "the list of gangs is not read": (
        ("coordinator-set", "gang-peers-resolvable", "gang-restart-strategy", "gang-uniform-priority"),
        reading("gangctl.dev/gangs", "gangctl.dev/gang"),
        nothing_else,
        "Fail",
    ),
    "what a merge key is overridden by is not read": (
        ("coordinator-set", "gang-restart-strategy"),
        reading("[&*<", "[&*"),
        nothing_else,
        "Fail",
    ),
    "names begin with a letter": (
        ("gang-uniform-priority",),
        reading("findAll('[-a-z0-9]*')", "findAll('[a-z][-a-z0-9]*')"),
        nothing_else,
        "Fail",
    ),
    "failures of pods are disruptions": (
        ("restart-limits",),
        reading("rule.action == 'FailJob'", "rule.action == 'FailIndex'"),
        nothing_else,
        "Fail",
    ),
    "policies of containers are not read": (
        ("restart-limits",),
        reading("c.?restartPolicy", "c.?restart"),
        nothing_else,
        "Fail",
    ),
    "annotations of pods are not read": (
        ("gang-exclusive-topology",),
        reading("rj.template.?spec.template.metadata", "rj.template.?metadata"),
        nothing_else,
        "Fail",
    ),
}
"""What brings a way around back: the policies that it opens, what changes in them or in gangctl."""


@each("mutant", MUTANTS)
def test_a_way_around_that_comes_back_is_noticed(mutant: str) -> None:
    names, changed, mutate, failure_policy = MUTANTS[mutant]
    passed = {}
    with mutate():
        for policy in shipped():
            if policy.name in names:
                document = enforced(changed(policy.document), failure_policy)
                made = [exhausting(policy)] if failure_policy == "Ignore" else list(attempts(policy, SEEDS))
                passed[policy.name] = evasions(policy, document, made)
    assert [name for name, found in passed.items() if "webhook" not in found] == []
