"""What KWOK does with a pod, by the pod's label: get ready, at once or late, end, or never start."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Final

from gangctl.api.meta import RESTART_ATTEMPT
from tests.controlplane.api import Object
from tests.controlplane.components.kwok import fast_stages

PLAY: Final = "gangctl.dev/play"
RESTARTS: Final = 3
"""Pods that play ``loop`` fail in so many attempts, and are ready in the next."""
LATE_SECONDS: Final = 14
"""After so long a pod that plays ``late`` is ready."""
_ALIVE: Final = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
_PENDING: Final = {"key": ".status.phase", "operator": "In", "values": ["Pending"]}
_FAILED: Final = {"terminated": {"exitCode": 1, "reason": "Error"}}
_UNTOUCHED: Final = {"key": ".status.containerStatuses", "operator": "DoesNotExist"}


def stages() -> list[Object]:
    """Stages for the plays ``ready``, ``late``, ``finish``, ``fail``, ``loop``, ``image`` and ``crash``.

    A pod with another play is never told of by its node. Nodes are left alone: they are what was made.
    """
    fast = {stage["metadata"]["name"]: stage for stage in fast_stages()}
    end = fast["pod-complete"]
    nodes = copy.deepcopy(fast["node-initialize"])
    # Without a stage for nodes it plays no pods; but what a node has is what it was made with.
    nodes["spec"]["selector"]["matchExpressions"].append({"key": ".status.allocatable", "operator": "Exists"})
    return [
        nodes,
        fast["pod-delete"],
        _played(fast["pod-ready"], "ready"),
        _played(fast["pod-ready"], "late", seconds=LATE_SECONDS),
        _played(fast["pod-ready"], "finish"),
        _played(end, "finish", name="pod-finish"),
        _stage("fail", "Failed", _FAILED),
        _of_attempts(_stage("loop", "Failed", _FAILED), range(RESTARTS)),
        _of_attempts(_played(fast["pod-ready"], "loop", name="pod-looped"), [RESTARTS]),
        _stage("image", "Pending", {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
        _stage("crash", "Running", {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, restarts=3),
    ]


def _played(stage: Object, play: str, *, name: str = "", seconds: int = 0) -> Object:
    made = copy.deepcopy(stage)
    made["metadata"]["name"] = name or f"pod-{play}"
    made["spec"]["selector"]["matchLabels"] = {PLAY: play}
    if seconds:
        made["spec"]["delay"] = {"durationMilliseconds": seconds * 1000}
    return made


def _of_attempts(stage: Object, attempts: Iterable[int]) -> Object:
    """A stage for pods of these attempts of their JobSet alone."""
    which = {"key": f'.metadata.labels["{RESTART_ATTEMPT}"]', "operator": "In", "values": [*map(str, attempts)]}
    stage["spec"]["selector"].setdefault("matchExpressions", []).append(which)
    return stage


def _stage(play: str, phase: str, state: dict[str, Any], *, restarts: int = 0) -> Object:
    """Containers that come into this state, and are not ready."""
    kind, said = next(iter(state.items()))
    lines = [
        'conditions: [{type: Ready, status: "False", lastTransitionTime: {{ Now | Quote }}}]',
        "containerStatuses:",
        "{{ range .spec.containers }}",
        "- name: {{ .name | Quote }}",
        "  image: {{ .image | Quote }}",
        "  ready: false",
        f"  restartCount: {restarts}",
        f"  state: {{{kind}: {said}}}",
        "{{ end }}",
        f"phase: {phase}",
        "startTime: {{ Now | Quote }}",
    ]
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": f"pod-{play}"},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchLabels": {PLAY: play}, "matchExpressions": [_ALIVE, _PENDING, _UNTOUCHED]},
            "next": {"statusTemplate": "\n".join(lines)},
        },
    }
