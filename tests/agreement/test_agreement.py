"""What the controller writes of a gang and what the commands print is the same, in stored and in random situations."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path

import pytest

from tests.agreement.paths import by_commands, by_controller
from tests.agreement.worlds import world
from tests.cli.gangs.dump import AT
from tests.cli.gangs.stored_situations import STORED, Stored
from tests.rows import each

SEEDS = 200
SHARDS = 4


@each("situation", STORED, ids=lambda situation: situation.id)
def test_stored_situations(situation: Stored, tmp_path: Path) -> None:
    objects = [obj for obj in situation.objects() if obj["kind"] != "ConfigMap"]
    now = datetime.fromisoformat(AT)
    assert by_controller(objects, now) == by_commands(tmp_path, objects, now)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_clusters(shard: int, tmp_path: Path) -> None:
    seen: set[str] = set()
    conflicts = 0
    for seed in range(shard, SEEDS, SHARDS):
        made = world(random.Random(seed))
        limit, unread = made.podset_limit, made.unread
        answers = by_controller(made.objects, made.now, podset_limit=limit, unread=unread)
        printed = by_commands(tmp_path, made.objects, made.now, podset_limit=limit, unread=unread)
        assert answers == printed, f"seed {seed}"
        queued = [answer["queue"] for answer in answers.values() if answer["queue"] is not None]
        seen |= {queue["stuck"] for queue in queued}
        conflicts += sum(bool(queue["conflicts"]) for queue in queued)
    assert len(seen) > 4, f"hardly anything happens: {seen}"
    assert conflicts, "no gang conflicts with its queue"
