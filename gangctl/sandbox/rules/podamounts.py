"""What a pod requests, and its limits, as its amounts in a ResourceQuota and on a node.

Pods of a template ask for the same, and are summed up once: callers must not change what is returned here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import orjson

from gangctl.api import requests
from gangctl.api.requests import Requests
from gangctl.sandbox.objects import Object

_SHAPES: Final = 1024


def requests_of(pod: Object) -> Requests:
    """Its effective requests, the overhead included."""
    return _requests(_shape(pod["spec"]))


def limits_of(pod: Object) -> Requests:
    """The same of limits."""
    return _limits(_shape(pod["spec"]))


def _shape(spec: Object) -> bytes:
    """All of a pod that its amounts depend on, as a key of a cache."""
    shape = {
        kind: [
            {key: container[key] for key in ("restartPolicy", "resources") if key in container}
            for container in spec.get(kind) or ()
        ]
        for kind in ("containers", "initContainers")
    }
    return orjson.dumps({**shape, "resources": spec.get("resources"), "overhead": spec.get("overhead")})


@lru_cache(maxsize=_SHAPES)
def _requests(shape: bytes) -> Requests:
    return requests.pod_requests(orjson.loads(shape))[0]


@lru_cache(maxsize=_SHAPES)
def _limits(shape: bytes) -> Requests:
    return requests.pod_limits(orjson.loads(shape), overhead=True)
