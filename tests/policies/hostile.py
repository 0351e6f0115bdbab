"""A hostile tenant: JobSets that break a policy's intent, changed in ways that leave what runs the same.

A base is a JobSet of the policy's own tests that breaks it. A change writes the same work in other words: another
order, another notation, another field that says the same, and whatever runs nothing. A seed draws some of them.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.quantity import parse_quantity
from gangctl.apiserver.jobsetwebhook import validate_update
from gangctl.cli.policy.requests import as_admitted
from gangctl.cli.policy.suite import Expected
from gangctl.gang.config import gangs_text, parse_gangs
from tests.policies.pack import Object, Shipped

BREAKS: Final = {Expected.FAIL, Expected.WARN}
MODE: Final = "gangctl.dev/gang-mode"
GANGS: Final = "gangctl.dev/gangs"
OPTIONS: Final = "gangctl.dev/gang-options"
PRIORITY: Final = "kueue.x-k8s.io/priority-class"
LARGE: Final = 12_000
"""Containers that run nothing: about 200 KB, of the 1.5 MB that an API server stores."""

Change = Callable[[random.Random, Object], None]
"""Changes a JobSet in place, or leaves it where it has nothing to change."""


def replicated_jobs(raw: Object) -> list[Object]:
    found: list[Object] = raw["spec"]["replicatedJobs"]
    return found


def pod_specs(raw: Object) -> Iterator[Object]:
    for rj in replicated_jobs(raw):
        yield rj["template"]["spec"]["template"]["spec"]


def containers(raw: Object) -> Iterator[Object]:
    for pod in pod_specs(raw):
        yield from pod.get("initContainers") or ()
        yield from pod["containers"]


def idle(name: str, replicas: int = 0, **job: Any) -> Object:
    """A ReplicatedJob of which no pod is ever made; it keeps every rule about containers and Jobs."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "r.example/i:1", "resources": resources}]}
    spec = {"backoffLimit": 0, "activeDeadlineSeconds": 60, **job, "template": {"spec": pod}}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def add(draw: random.Random, raw: Object, *entries: Object) -> None:
    """Anywhere among the others."""
    for entry in entries:
        replicated_jobs(raw).insert(draw.randint(0, len(replicated_jobs(raw))), entry)


def pad_replicated_jobs(draw: random.Random, raw: Object) -> None:
    add(draw, raw, *(idle(f"idle-{number}") for number in range(draw.randint(1, 12))))


def pad_text(draw: random.Random, raw: Object) -> None:
    """Up to the size of annotations that an API server accepts, 256 KB."""
    raw["metadata"].setdefault("annotations", {})["example.org/notes"] = "n" * draw.choice([1, 10_000, 200_000])


def rename_replicated_jobs(draw: random.Random, raw: Object) -> None:
    """Names that begin with a digit: JobSet takes any of which the names of Jobs can be made."""
    sign, spec = draw.choice(["1", "0-"]), raw["spec"]
    names = {rj["name"]: f"{sign}{rj['name']}" for rj in replicated_jobs(raw)}
    notes = raw["metadata"].get("annotations") or {}
    if GANGS in notes:
        known = "|".join(map(re.escape, names))
        notes[GANGS] = re.sub(rf"(?<![-\w])({known})(?![-\w])", lambda name: names[name[0]], notes[GANGS])
    for rj in replicated_jobs(raw):
        rj["name"] = names[rj["name"]]
        for before in rj.get("dependsOn") or ():
            before["name"] = names.get(before["name"], before["name"])
    if coordinator := spec.get("coordinator"):
        coordinator["replicatedJob"] = names.get(coordinator["replicatedJob"], coordinator["replicatedJob"])
    for targets in (spec.get("successPolicy") or {}, *((spec.get("failurePolicy") or {}).get("rules") or ())):
        if "targetReplicatedJobs" in targets:
            targets["targetReplicatedJobs"] = [names.get(name, name) for name in targets["targetReplicatedJobs"]]


def merge_keys(draw: random.Random, raw: Object) -> None:
    """The list of gangs with merge keys, each of which the key below it overrides."""
    del draw
    notes = raw["metadata"].get("annotations") or {}
    gangs, errors = parse_gangs(notes.get(GANGS) or "")
    if errors:
        return
    notes[GANGS] = ""
    for entry in json.loads(gangs_text(gangs)):
        written = {"perReplica": False, **entry}
        merged = json.dumps({"perReplica": not written["perReplica"]})
        lines = [f"<<: {merged}", *(f"{key}: {json.dumps(value)}" for key, value in written.items())]
        notes[GANGS] += "- " + "\n  ".join(lines) + "\n"


def odd_numbers(draw: random.Random, raw: Object) -> None:
    """What JobSet and its definition accept, and no Job is ever made from."""
    odd = [
        idle("odd-replicas", -1),
        idle("odd-parallelism", parallelism=-1, completions=-1),
        idle("odd-deadline", activeDeadlineSeconds=-1, backoffLimit=-1),
    ]
    resources = idle("odd-resources")
    (container,) = resources["template"]["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"cpu": "-1", "memory": "-1Gi"}}
    add(draw, raw, *draw.sample([*odd, resources], draw.randint(1, 4)))


def null_fields(draw: random.Random, raw: Object) -> None:
    """Nulls, which an API server drops; a file keeps them."""
    places: list[tuple[Object, str]] = [(raw["metadata"], key) for key in ("labels", "annotations")]
    places += [(raw["spec"], key) for key in ("network", "coordinator", "failurePolicy", "successPolicy", "suspend")]
    for rj in replicated_jobs(raw):
        job = rj["template"]["spec"]
        places += [(rj["template"], "metadata"), (job, "completions"), (job, "parallelism"), (rj, "replicas")]
        places += [(job["template"], "metadata"), (job["template"]["spec"], "initContainers")]
    for holder, key in places:
        if key not in holder and draw.random() < 0.5:
            holder[key] = None


def empty_fields(draw: random.Random, raw: Object) -> None:
    """Lists, objects and texts without anything in them."""
    for holder, key in [(raw["metadata"], "labels"), (raw["metadata"], "annotations"), (raw["metadata"], "finalizers")]:
        if key not in holder and draw.random() < 0.5:
            holder[key] = [] if key == "finalizers" else {}
    for rj in replicated_jobs(raw):
        pod = rj["template"]["spec"]["template"]["spec"]
        for key in ("initContainers", "volumes", "tolerations", "nodeSelector"):
            pod.setdefault(key, {} if key == "nodeSelector" else [])
        pod.setdefault("priorityClassName", "")
    failure = raw["spec"].get("failurePolicy")
    if failure is not None:
        failure.setdefault("rules", [])


def other_quantities(draw: random.Random, raw: Object) -> None:
    """The same amounts: milli-units, an integer, decimals, an exponent."""
    for container in containers(raw):
        for amounts in (container.get("resources") or {}).values():
            for name, written in amounts.items():
                value = parse_quantity(str(written))
                forms: list[Any] = [f"{int(value * 1000)}m"]
                if value.denominator == 1:
                    forms += [int(value), f"{int(value)}.0", f"{int(value)}e0"]
                amounts[name] = draw.choice(forms)


def shuffle(draw: random.Random, raw: Object) -> None:
    """Another order of everything whose order means nothing."""
    jobs = replicated_jobs(raw)
    if not any(rj.get("dependsOn") for rj in jobs) and "startupPolicy" not in raw["spec"]:
        draw.shuffle(jobs)
    for pod in pod_specs(raw):
        draw.shuffle(pod["containers"])
    reorder(draw, raw)


def reorder(draw: random.Random, value: Any) -> None:
    """The keys of every object in another order."""
    if isinstance(value, dict):
        items = list(value.items())
        draw.shuffle(items)
        value.clear()
        value.update(items)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        reorder(draw, inner)


def generate_name(draw: random.Random, raw: Object) -> None:
    del draw
    if "name" in raw["metadata"]:
        raw["metadata"]["generateName"] = raw["metadata"].pop("name")[:40] + "-"


def more_metadata(draw: random.Random, raw: Object) -> None:
    """Labels and annotations that mean nothing to anyone, on everything, and a time that only a server sets."""
    holders = [raw, *(rj["template"] for rj in replicated_jobs(raw))]
    for holder in [*holders, *(rj["template"]["spec"]["template"] for rj in replicated_jobs(raw))]:
        metadata = holder.setdefault("metadata", {})
        metadata["labels"] = {"example.org/a": str(draw.random()), **(metadata.get("labels") or {})}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), "example.org/b": ""}
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def sidecars(draw: random.Random, raw: Object) -> None:
    """Each container as a sidecar beside one that does nothing, which is the same to the node and to the quota."""
    del draw
    resources = {"requests": {"cpu": "1m", "memory": "1Mi"}}
    for pod in pod_specs(raw):
        moved = [{**each, "restartPolicy": "Always"} for each in pod["containers"]]
        pod["initContainers"] = [*(pod.get("initContainers") or ()), *moved]
        pod["containers"] = [{"name": "wait", "image": "r.example/pause:3", "resources": resources}]


def priority_as_label(draw: random.Random, raw: Object) -> None:
    """Kueue's own class of the same name in place of the pods'."""
    del draw
    names = [pod.get("priorityClassName") for pod in pod_specs(raw)]
    if names[0] and len(set(names)) == 1:
        raw["metadata"]["labels"] = {**(raw["metadata"].get("labels") or {}), PRIORITY: names[0]}
        for pod in pod_specs(raw):
            del pod["priorityClassName"]


def gang_as_list(draw: random.Random, raw: Object) -> None:
    """A JobSet-wide gang in the annotation that lists gangs, with words of another one."""
    notes = raw["metadata"].get("annotations") or {}
    if notes.get(MODE) == "Gang":
        del notes[MODE]
        names = [rj["name"] for rj in replicated_jobs(raw)]
        more = draw.choice(["", "  perReplica: false\n", "  topologyKey: perReplica\n", "# perReplica: true\n"])
        listed = draw.choice([f"[{', '.join(names)}]", json.dumps(names), "\n  - " + "\n  - ".join(names)])
        notes[GANGS] = f"- name: all\n  replicatedJobs: {listed}\n{more}"


def gang_as_field(draw: random.Random, raw: Object) -> None:
    """A JobSet-wide gang in the field of KEP-1068, where the cluster's definition of JobSets has it."""
    del draw
    notes = raw["metadata"].get("annotations") or {}
    if notes.get(MODE) == "Gang":
        del notes[MODE]
        raw["spec"]["gangConfig"] = {"gangMode": "Gang"}


def gang_on_templates(draw: random.Random, raw: Object) -> None:
    """A gang of each ReplicatedJob, in the annotation or the field of its own, where one has several Jobs."""
    if all(rj.get("replicas", 1) < 2 for rj in replicated_jobs(raw)):
        return
    for key in (MODE, GANGS):
        (raw["metadata"].get("annotations") or {}).pop(key, None)
    for rj in replicated_jobs(raw):
        if draw.random() < 0.5:
            rj["template"].setdefault("metadata", {}).setdefault("annotations", {}).setdefault(MODE, "Gang")
        else:
            rj["gangConfig"] = {"gangMode": "Gang"}


def gangs_of_one(draw: random.Random, raw: Object) -> None:
    """As many pods, each of which is a gang of its own."""
    del draw
    for key in (MODE, GANGS, OPTIONS):
        (raw["metadata"].get("annotations") or {}).pop(key, None)
    for rj in replicated_jobs(raw):
        metadata, job = rj["template"].setdefault("metadata", {}), rj["template"]["spec"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), MODE: "ReplicatedGang"}
        rj["replicas"] = rj.get("replicas", 1) * job.get("parallelism", 1)
        job |= {"parallelism": 1, "completions": 1}


def gangs_together(draw: random.Random, raw: Object) -> None:
    """The same gang in the words of the option ``composite``: gangs of one pod that start together."""
    gangs_of_one(draw, raw)
    raw["metadata"]["annotations"] = {**(raw["metadata"].get("annotations") or {}), OPTIONS: '{"composite": true}'}


DEVICES: Final = frozenset({"amd.com/gpu", "google.com/tpu", "nvidia.com/gpu"})
OTHER_DEVICES: Final = (
    *("aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice"),
    *("gpu.intel.com/i915", "nvidia.com/gpu.shared"),
)
"""Second names of devices: of their parts, of those that are shared, of another driver."""


def other_devices(draw: random.Random, raw: Object) -> None:
    """As many devices of another vendor, or of another device plugin."""
    name = draw.choice(OTHER_DEVICES)
    for container in containers(raw):
        for amounts in (container.get("resources") or {}).values():
            for device in amounts.keys() & DEVICES:
                amounts[name] = amounts.pop(device)


OWN_FAILURES: Final[tuple[Object, ...]] = (
    {"onExitCodes": {"operator": "NotIn", "values": [0]}},
    {"onPodConditions": [{"type": "Ready", "status": "False"}]},
)
"""What a rule of ``podFailurePolicy`` can say of every pod that failed."""


def fails_for_pods(draw: random.Random, raw: Object) -> None:
    """Restarts without a limit, for the reason that disruptions have: any failure of a pod fails its Job for it."""
    failure = raw["spec"].get("failurePolicy")
    if failure is not None:
        rule = {"name": "r", "action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["PodFailurePolicy"]}
        failure |= {"maxRestarts": 0, "rules": [rule]}
        _of_pods(draw, raw, "FailJob")


def ignores_pods(draw: random.Random, raw: Object) -> None:
    """Retries without a limit beside a small ``backoffLimit``: no failure of a pod counts."""
    _of_pods(draw, raw, "Ignore")


def restarts_containers(draw: random.Random, raw: Object) -> None:
    """Restarts of containers without a limit: of a pod with ``restartPolicy: Never`` no restart counts."""
    raw["spec"].pop("failurePolicy", None)
    rule = {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0]}}
    for rj, pod in zip(replicated_jobs(raw), pod_specs(raw), strict=True):
        rj["template"]["spec"]["backoffLimit"] = 0
        pod["restartPolicy"] = "Never"
        for container in [*(pod.get("initContainers") or ()), *pod["containers"]]:
            own = [{"restartPolicy": "OnFailure"}, {"restartPolicy": "Never", "restartPolicyRules": [rule]}]
            container.update(draw.choice(own))


def _of_pods(draw: random.Random, raw: Object, action: str) -> None:
    rules = [{"action": action, **draw.choice(OWN_FAILURES)}]
    for rj in replicated_jobs(raw):
        rj["template"]["spec"] |= {"backoffLimit": 0, "podFailurePolicy": {"rules": rules}}


def placement_on_pods(draw: random.Random, raw: Object) -> None:
    """JobSet copies the annotation of exclusive placement to the pods: it may as well be there from the beginning."""
    del draw
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    for holder in (raw, *(rj["template"] for rj in replicated_jobs(raw))):
        value = ((holder.get("metadata") or {}).get("annotations") or {}).pop(key, None)
        for rj in replicated_jobs(raw) if value is not None else ():
            if holder in (raw, rj["template"]):
                metadata = rj["template"]["spec"]["template"].setdefault("metadata", {})
                metadata.setdefault("annotations", {})[key] = value


CHANGES: Final[tuple[Change, ...]] = (
    pad_replicated_jobs,
    pad_text,
    odd_numbers,
    empty_fields,
    other_quantities,
    shuffle,
    generate_name,
    more_metadata,
    null_fields,
    rename_replicated_jobs,
    merge_keys,
)
"""For every policy, in the order in which they are applied."""
OTHER_FIELDS: Final[dict[str, tuple[Change, ...]]] = {
    "coordinator-set": (gang_as_list, gang_as_field, gang_on_templates, gangs_together),
    "gang-accelerators": (sidecars, gangs_of_one, other_devices),
    "gang-exclusive-topology": (placement_on_pods,),
    "gang-not-sequenced": (gang_as_field,),
    "gang-peers-resolvable": (gang_as_list, gang_as_field),
    "gang-required": (gangs_of_one,),
    "gang-restart-strategy": (gang_as_list, gang_as_field, gang_on_templates, gangs_together),
    "gang-size-limit": (gang_as_list, gangs_together),
    "gang-uniform-priority": (gang_as_list, gang_as_field),
    "images-pinned": (sidecars,),
    "priority-classes": (priority_as_label,),
    "resource-requests": (sidecars,),
    "restart-limits": (fails_for_pods, ignores_pods, restarts_containers),
}
"""Fields that say the same to what runs the JobSet, by policy: what each of its rules is about."""


@dataclass(frozen=True)
class Attempt:
    """One JobSet that has to be refused; ``old`` is what it was before an UPDATE, ``changes`` are what was drawn."""

    policy: str
    base: str
    changes: tuple[str, ...]
    raw: Object
    old: Object | None = None

    def __str__(self) -> str:
        return f"{self.policy}: {self.base} with {', '.join(self.changes)}"


def attempts(policy: Shipped, seeds: Iterable[int]) -> Iterator[Attempt]:
    """A JobSet for each base and seed; of what is updated, both states are changed alike."""
    own = OTHER_FIELDS.get(policy.name, ())
    for case in bases(policy):
        for seed in seeds:
            draw = random.Random(f"{policy.name}/{case[0]}/{seed}")
            chosen = draw.sample(own, min(len(own), draw.randint(0, 1)))
            chosen += [each for each in CHANGES if draw.random() < 0.4]
            made = attempt(policy.name, case, chosen, seed)
            if made.old is None or is_reachable(made.raw, made.old):
                yield made


def is_reachable(raw: Object, old: Object) -> bool:
    """Whether JobSet accepts the update, as far as both states are valid."""
    new, before = stored(raw, old), stored(old)
    return new is None or before is None or not validate_update(new, before, {"ElasticJobSet": True})


def attempt(policy: str, base: tuple[str, Object, Object | None], changes: Iterable[Change], seed: int) -> Attempt:
    """The base with these changes."""
    name, new, old = base
    made: list[Object] = []
    chosen = [each for each in changes if old is None or each is not generate_name]
    for state in (new, old) if old is not None else (new,):
        raw, draw = copy.deepcopy(state), random.Random(seed)
        for change in chosen:
            change(draw, raw)
        if old is not None:
            raw["metadata"].pop("deletionTimestamp", None)
        made.append(raw)
    return Attempt(policy, name, tuple(each.__name__ for each in chosen), made[0], made[1] if old is not None else None)


def bases(policy: Shipped) -> list[tuple[str, Object, Object | None]]:
    """The JobSets of the policy's tests that break one of its rules."""
    found = [(case.name, case.resource, case.old) for case in policy.cases if case.row.result in BREAKS]
    return [(name, raw, old) for name, raw, old in found if raw["spec"].get("replicatedJobs")]


def exhausting(policy: Shipped) -> Attempt:
    """A base beside so many containers that run nothing that a loop over containers exceeds some limit."""
    base = bases(policy)[0]
    made = attempt(policy.name, base, (), 0)
    padding = idle("padding")
    pod = padding["template"]["spec"]["template"]["spec"]
    pod["containers"] = [{"name": f"c{number}"} for number in range(LARGE)]
    for raw in filter(None, (made.raw, made.old)):
        replicated_jobs(raw).append(padding)
    return made


def earlier(raw: Object) -> Iterator[Object]:
    """States from which an update that JobSet accepts leads to this one.

    Without one of its labels or annotations (keys of gangctl are settled when a JobSet is created), suspended, also
    without the annotations of its pods, with a short TTL, with a coordinator, or with fewer or more pods, where it is
    elastic.
    """
    for part in ("labels", "annotations"):
        for key in raw["metadata"].get(part) or {}:
            if not key.startswith("gangctl.dev/"):
                before = copy.deepcopy(raw)
                del before["metadata"][part][key]
                yield before
    resizes: tuple[Callable[[int], int], ...] = (lambda pods: max(1, pods // 2), lambda _: 1, lambda pods: pods * 2)
    for resized in resizes:
        before = copy.deepcopy(raw)
        for rj in replicated_jobs(before):
            job = rj["template"]["spec"]
            pods = resized(job.get("parallelism", 1))
            job |= {"parallelism": pods, "completions": pods}
        yield before
    yield {**raw, "spec": {**raw["spec"], "coordinator": {"replicatedJob": replicated_jobs(raw)[0]["name"]}}}
    suspended = {**raw, "spec": {**raw["spec"], "suspend": True}}
    yield suspended
    if any(
        (rj["template"]["spec"]["template"].get("metadata") or {}).get("annotations") for rj in replicated_jobs(raw)
    ):
        before = copy.deepcopy(suspended)
        for rj in replicated_jobs(before):
            (rj["template"]["spec"]["template"].get("metadata") or {}).pop("annotations", None)
        yield before
    yield {**raw, "spec": {**raw["spec"], "ttlSecondsAfterFinished": 60}}


def stored(raw: Object, old: Object | None = None) -> Object | None:
    """The object, what ``old`` became, as policies see it; None if the API server or JobSet refuses it anyway."""
    admitted = as_admitted(raw, old)
    return None if admitted.refused else admitted.obj
