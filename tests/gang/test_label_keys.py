"""Which keys a node label can have: Kubernetes' bounds of prefix and name, to the character."""

from __future__ import annotations

import json
from typing import Final

from gangctl.gang.config import is_label_key
from tests.gang.pipeline import resolved
from tests.jobsets import jobset, rj
from tests.rows import each

PREFIX: Final = ".".join(["a" * 63] * 3 + ["b" * 61])
NAME: Final = "n" * 63
LENGTHS: Final = [
    (f"{PREFIX}/{NAME}", True),
    (f"{PREFIX}b/{NAME}", False),
    (f"{PREFIX}b/n", False),
    (NAME, True),
    (f"{NAME}n", False),
    (f"p/{NAME}n", False),
    ("n", True),
    ("p/n", True),
    ("p/", False),
    ("", False),
]


@each(("key", "taken"), LENGTHS)
def test_a_key_has_a_prefix_of_at_most_253_and_a_name_of_at_most_63_characters(key: str, taken: bool) -> None:
    assert len(PREFIX) == 253
    assert is_label_key(key) is taken


@each(("key", "taken"), [row for row in LENGTHS if row[0]])
def test_the_topology_key_of_a_gang_has_the_same_bounds(key: str, taken: bool) -> None:
    raw = jobset("js", rj("w"), mode="Gang", options=json.dumps({"topologyKey": key}))
    assert [error.path for error in resolved(raw).errors] == (
        [] if taken else ["metadata.annotations[gangctl.dev/gang-options].topologyKey"]
    )
