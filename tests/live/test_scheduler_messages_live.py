"""Messages of schedulers, API servers and JobSet about gangs that cannot start are as recorded for the causes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.readiness.causes.finding import RECORDED
from tests.readiness.causes.record import RECORDED_MINORS, on_a_plane

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.full(
        "test_readiness_causes_live has gangs to which these messages are said, and what gangctl makes of it"
    ),
]

_POD = re.compile(r'pods "\w[\w-]*-\w{0,5}"')


def comparable(said: dict[str, Any]) -> dict[str, Any]:
    """Without the names of pods; which pod gets which message is chance."""
    found: dict[str, Any] = {}
    for case, each in said.items():
        if isinstance(each, dict):
            found[case] = {**each, "pods": sorted(json.dumps(pod, sort_keys=True) for pod in each["pods"])}
        else:
            found[case] = _POD.sub('pods "..."', each)
    return found


@pytest.mark.parametrize("minor", [pytest.param(each, marks=pytest.mark.minor(each)) for each in RECORDED_MINORS])
async def test_schedulers_and_controllers_give_the_recorded_messages(minor: str) -> None:
    assert comparable(await on_a_plane(minor)) == comparable(RECORDED[minor])
