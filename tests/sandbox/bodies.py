"""The smallest objects that a server accepts."""

from __future__ import annotations

from typing import Any

POD: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
JOB: dict[str, Any] = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
SPECS: dict[str, dict[str, Any]] = {"pods": POD, "jobs.batch": JOB}
EVENT: dict[str, Any] = {
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "example.com/test",
    "reportingInstance": "test",
    "action": "Test",
    "reason": "R",
    "type": "Normal",
    "note": "hello",
    "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
}
