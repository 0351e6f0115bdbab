"""Two small gangs that the doctor creates, as a dry run and as a canary: it watches them, and always deletes them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gangctl.api.meta import GANG_MODE, GANG_REF, JOBSET_API_VERSION, JOBSET_NAME, MANAGED_BY, MANAGER
from gangctl.api.objects import controller_owner, objects
from gangctl.api.scheduling import Generation
from gangctl.cli.doctor.cluster import UnseenError, all_of, denied
from gangctl.client.client import Client, Selection
from gangctl.client.resources import EVENTS, JOBS, JOBSETS, PODS
from gangctl.controllers.discovery import served_resources
from gangctl.controllers.writer import scheduling_resources
from gangctl.errors import ApiError, ForbiddenError, InvalidError, NotFoundError
from gangctl.gang.generation import pick_generation
from gangctl.readiness.facts import FAILED_CREATE, JOB_CREATION_FAILED, PodFacts, read_pod, read_refusal

PODS_OF_ONE: Final = 2
"""Pods of a JobSet of the canary."""


@dataclass(frozen=True, slots=True)
class CanaryJobSet:
    """One JobSet of the canary, as it was last seen."""

    name: str
    refusal: str = ""
    """Why it could not be created."""
    stamped: bool = False
    suspended: bool = False
    groups: tuple[str, ...] = ()
    """Names of the objects of its gang."""
    pods: tuple[PodFacts, ...] = ()
    seconds: float = 0.0
    denied: str = ""
    """What refuses its Jobs or pods, as far as events may be read."""


@dataclass(frozen=True, slots=True)
class Canary:
    """Both JobSets: all pods of ``whole`` fit, one of ``torn`` does not; and objects that remained after deletion."""

    whole: CanaryJobSet
    torn: CanaryJobSet
    held_seconds: float
    """How long the torn one was watched after the scheduler rejected one of its pods."""
    left_behind: tuple[str, ...] = ()


LABEL: Final = "gangctl.dev/canary"
IMAGE: Final = "registry.k8s.io/pause:3.10"
_REQUESTS: Final = {"cpu": "1m", "memory": "1Mi"}
_LIFE_SECONDS: Final = 600
"""How long a canary outlasts a step of the doctor: if that was killed, it fails, and JobSet deletes it later."""


def gang_of_two(name: str, *, torn: bool = False, step_seconds: float = 0.0) -> dict[str, Any]:
    """A gang of two small pods; ``torn`` gives one of them a nodeSelector that no node has."""
    deadline = math.ceil(step_seconds) + _LIFE_SECONDS
    second = ("never", {LABEL: "no-node-has-this"}) if torn else ("too", {})
    return {
        "apiVersion": JOBSET_API_VERSION,
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "labels": {LABEL: "true", MANAGED_BY: MANAGER},
            "annotations": {GANG_MODE: "Gang"},
        },
        "spec": {
            "ttlSecondsAfterFinished": 60,
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [_replicated_job("fits", {}, deadline), _replicated_job(*second, deadline)],
        },
    }


def _replicated_job(name: str, selector: Mapping[str, str], deadline: int) -> dict[str, Any]:
    pod = {
        "restartPolicy": "Never",
        # The doctor waits until it is deleted.
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        # The namespace may enforce the Pod Security Standard restricted. The image has a user; OpenShift gives another.
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "pause",
                "image": IMAGE,
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "resources": {"requests": dict(_REQUESTS), "limits": dict(_REQUESTS)},
            }
        ],
        **({"nodeSelector": dict(selector)} if selector else {}),
    }
    job = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 0,
        "activeDeadlineSeconds": deadline,
        "template": {"metadata": {"labels": {LABEL: "true"}}, "spec": pod},
    }
    return {"name": name, "replicas": 1, "template": {"spec": job}}


def _templates(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    replicated_jobs = objects((stored.get("spec") or {}).get("replicatedJobs"))
    return [entry["template"] for entry in replicated_jobs if isinstance(entry.get("template"), dict)]


def is_stamped(stored: Mapping[str, Any]) -> bool:
    """Whether every ReplicatedJob of a stored JobSet has gangctl's stamp."""
    templates = _templates(stored)
    notes = [(template.get("metadata") or {}).get("annotations") or {} for template in templates]
    return bool(notes) and all(GANG_REF in note for note in notes)


def is_defaulted(stored: Mapping[str, Any]) -> bool:
    """Whether JobSet's webhook set defaults that its schema does not have."""
    # JobSet's webhook sets Indexed where a template has no completionMode.
    modes = [(template.get("spec") or {}).get("completionMode") for template in _templates(stored)]
    return bool(modes) and all(modes)


_LOOK_SECONDS: Final = 0.25
_HOLD_SECONDS: Final = 5.0
"""How long the torn one is watched for placed pods after the scheduler has rejected one."""
_CLEANUP_SECONDS: Final = 30.0


async def run_canary(client: Client, namespace: str, timeout: float) -> Canary:  # noqa: ASYNC109 -- of each step
    """Run both JobSets at once, and delete both; :class:`UnseenError` if a right is missing.

    ``timeout`` is the limit of each step in seconds.
    """
    run = _CanaryRun(client, namespace, timeout, pick_generation(await served_resources(client)).generation)
    stem = f"gangctl-canary-{secrets.token_hex(3)}"
    names = (f"{stem}-whole", f"{stem}-torn")
    try:
        # Wait for both, also if one of them fails: nothing may be created during deletion.
        whole, torn = await all_of(
            (
                run.watch(names[0], gang_of_two(names[0], step_seconds=timeout), _is_placed),
                run.watch(names[1], gang_of_two(names[1], torn=True, step_seconds=timeout), _is_refused),
            )
        )
        if any(pod.refused for pod in torn.pods):
            # A pod that is placed now is placed alone.
            torn = await run.until(torn, lambda seen: any(pod.node for pod in seen.pods), _HOLD_SECONDS)
    except ApiError as error:
        # Clean up also after a missing right.
        left = await run.remove()
        why = f"{error.message}; left behind: {', '.join(left)}" if left else error.message
        raise UnseenError(why, denied(error.message)) from error
    except asyncio.CancelledError:
        # Also after Ctrl-C no pods may stay.
        await run.remove()
        raise
    return Canary(whole, torn, _HOLD_SECONDS, tuple(await run.remove()))


def _is_placed(jobset: CanaryJobSet) -> bool:
    """All observed facts of the one that fits."""
    all_placed = len(jobset.pods) == PODS_OF_ONE and all(pod.node for pod in jobset.pods)
    return all_placed and bool(jobset.groups)


def _is_refused(jobset: CanaryJobSet) -> bool:
    """The scheduler rejected it, or placed a part of it."""
    return any(pod.refused or pod.node for pod in jobset.pods)


@dataclass(slots=True)
class _CanaryRun:
    client: Client
    namespace: str
    timeout: float
    generation: Generation | None
    made: set[str] = field(default_factory=set)
    """Names of JobSets that may exist."""

    async def watch(self, name: str, manifest: dict[str, Any], done: Callable[[CanaryJobSet], bool]) -> CanaryJobSet:
        """Create it, and poll until it is ``done`` or the timeout expires."""
        # Before the request: the JobSet may exist although the response was lost.
        self.made.add(name)
        try:
            created = await self.client.create(JOBSETS, manifest, self.namespace)
        except ApiError as error:
            # The API server refused it, so that there is nothing to delete.
            if isinstance(error, (ForbiddenError, InvalidError, NotFoundError)):
                self.made.discard(name)
            if denied(error.message):
                raise
            return CanaryJobSet(name, refusal=error.message)
        jobset = CanaryJobSet(name, stamped=is_stamped(created))
        return await self.until(jobset, done, self.timeout)

    async def until(self, jobset: CanaryJobSet, done: Callable[[CanaryJobSet], bool], seconds: float) -> CanaryJobSet:
        """Poll until it is ``done``, or so many seconds have passed."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            jobset = await self._observe(replace(jobset, seconds=loop.time() - began))
            if done(jobset) or jobset.seconds >= seconds:
                return jobset
            await asyncio.sleep(_LOOK_SECONDS)

    async def _observe(self, jobset: CanaryJobSet) -> CanaryJobSet:
        namespace = self.namespace
        stored = await self.client.get(JOBSETS, jobset.name, namespace)
        pods = await self.client.list(PODS, namespace, selection=Selection(f"{JOBSET_NAME}={jobset.name}"))
        return replace(
            jobset,
            suspended=(stored.get("spec") or {}).get("suspend") is True,
            groups=tuple([f"{kind} {name}" for kind, name in await self._groups(jobset.name)]),
            pods=tuple(sorted(filter(None, map(read_pod, pods.items)), key=lambda pod: pod.name)),
            denied="" if len(pods.items) >= PODS_OF_ONE else await self._denied(jobset.name),
        )

    async def _denied(self, jobset: str) -> str:
        """What refuses Jobs or pods of a JobSet; empty where nothing does, or events may not be read."""
        for reason in (FAILED_CREATE, JOB_CREATION_FAILED):
            selection = Selection(field_selector=f"reason={reason}")
            with contextlib.suppress(ForbiddenError):
                events = await self.client.list(EVENTS, self.namespace, selection=selection)
                for refusal in filter(None, map(read_refusal, events.items)):
                    if refusal.name.startswith(jobset):
                        return refusal.message
        return ""

    async def _groups(self, jobset: str) -> list[tuple[str, str]]:
        """Kind and name of the objects that the JobSet controls."""
        groups = []
        kinds = scheduling_resources(self.generation) if self.generation is not None else {}
        for kind, resource in kinds.items():
            for item in (await self.client.list(resource, self.namespace)).items:
                owner = controller_owner(item["metadata"]) or {}
                if owner.get("kind") == "JobSet" and owner.get("name") == jobset:
                    groups.append((str(kind), str(item["metadata"].get("name"))))
        return groups

    async def remove(self) -> list[str]:
        """Delete the objects and wait until they are gone; returns those that remain after the timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(self.timeout, _CLEANUP_SECONDS)
        names, refused = sorted(self.made), list[str]()
        while True:
            left: list[str] = []
            for name in tuple(names):
                # Each by itself: what is refused for one must not keep the other from being deleted.
                try:
                    left += await self._leftovers(name)
                except ForbiddenError as error:
                    names.remove(name)
                    refused.append(f"JobSet {self.namespace}/{name}: {error.message}")
                except ApiError as error:
                    left.append(f"JobSet {self.namespace}/{name}: {error.message}")
            if not left or loop.time() > deadline:
                return refused + left
            await asyncio.sleep(_LOOK_SECONDS)

    async def _leftovers(self, name: str) -> list[str]:
        """Delete a JobSet; it and its objects, as far as they exist and may be listed."""
        namespace = self.namespace
        left = []
        # It is gone or was never created. Its child objects may still exist.
        with contextlib.suppress(NotFoundError):
            await self.client.delete(JOBSETS, name, namespace, propagation="Background")
            left.append(f"JobSet {namespace}/{name}")
        for resource in (JOBS, PODS):
            with contextlib.suppress(ForbiddenError):
                page = await self.client.list(resource, namespace, selection=Selection(f"{JOBSET_NAME}={name}"))
                left += [f"{resource.kind} {namespace}/{item['metadata'].get('name')}" for item in page.items]
        with contextlib.suppress(ForbiddenError):
            left += [f"{kind} {namespace}/{group}" for kind, group in await self._groups(name)]
        return left
