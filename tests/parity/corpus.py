"""
Expressions of every topic, all of them boolean, and the object they are about.

What each gives is not written here: `recorded.json` holds the answers of a kube-apiserver, asked by
`python -m tests.parity record`.
"""

from typing import Any, Final

from tests.parity import instants, language, libraries, unknown

SAMPLE: Final[dict[str, Any]] = {
    "apiVersion": "parity.gangctl.dev/v1",
    "kind": "Sample",
    "metadata": {
        "name": "sample",
        "labels": {"app": "trainer", "tier": "gold"},
        "annotations": {"gangctl.dev/gang-mode": "Gang"},
    },
    "spec": {
        "three": 3,
        "minus": -7,
        "zero": 0,
        "large": 9223372036854775807,
        "half": 2.5,
        "huge": 18446744073709551616,
        "several": [18446744073709551616, 9223372036854775808],
        "text": "training",
        "empty": "",
        "accent": "héllo wörld",
        "emoji": "a😀b",
        "yes": True,
        "no": False,
        "numbers": [3, 1, 2],
        "sorted": [1, 2, 3],
        "doubles": [0.5, 1.5],
        "words": ["b", "a", "c"],
        "mixed": [1, "a", True],
        "none": [],
        "nested": {"a": {"b": {"c": 1}}},
        "limits": {"cpu": "1500m", "memory": "2Gi"},
        "bad": "12 apples",
        "since": "2024-02-29T12:30:45.123Z",
        "for": "1h30m",
        "address": "10.1.2.3",
        "range": "10.1.0.0/16",
        "link": "https://user@example.com:8443/a/b?x=1&y=2",
        "version": "1.37.1-rc.1+build",
        "dns": "a-good-name",
        "pods": [
            {"name": "head", "replicas": 1, "cpu": "500m", "image": "registry/head:v1", "labels": {"role": "head"}},
            {"name": "worker", "replicas": 4, "cpu": "2", "image": "registry/worker", "tolerations": [{"key": "gpu"}]},
        ],
    },
}

CASES: Final[dict[str, tuple[str, ...]]] = {**language.CASES, **instants.CASES, **libraries.CASES, **unknown.CASES}


def cases() -> list[tuple[str, str]]:
    """Every topic and expression."""
    return [(topic, expression) for topic, expressions in CASES.items() for expression in expressions]
