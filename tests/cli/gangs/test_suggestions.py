"""What causes suggest works, in situations that are made of stored objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.gangs.dump import WAITS
from tests.cli.gangs.place import place
from tests.cli.gangs.stored_situations import STORED, Stored, up_to_date
from tests.suggestions import Shell, command_of, subject_of

pytestmark = pytest.mark.controlplane
"""The binary of kubectl is the harness'; the cluster is not."""


@pytest.mark.parametrize("situation", STORED, ids=lambda each: each.id)
async def test_what_a_cause_suggests_works_on_stored_objects(situation: Stored, tmp_path: Path) -> None:
    objects = up_to_date(situation.objects())
    kueue = any(each["apiVersion"].startswith("kueue") for each in objects)
    async with place(tmp_path, objects, forbidden=situation.forbidden, kueue=kueue) as here:
        causes = (await here.ask("why", WAITS, "-o", "json")).json["status"]["causes"]
        suggestions = {each["reason"]: each["command"] for each in causes}
        suggestion = suggestions[situation.reason]
        answer = await Shell(tmp_path, here.kubeconfig).run(suggestion)
    assert next(iter(suggestions)) == situation.reason or not situation.first
    assert command_of(suggestion) is situation.command
    assert answer.code == situation.code, (suggestion, answer)
    assert (situation.shows or subject_of(suggestion)) in answer.out, (suggestion, answer)
