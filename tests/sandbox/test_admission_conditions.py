"""matchConditions: above all gangctl's own, which decide whether a cluster waits for it at all."""

from __future__ import annotations

import pytest

from gangctl.api.meta import GANG_MODE, GANG_REF
from gangctl.sandbox.admission.hooks import Conditions
from gangctl.sandbox.objects import Object
from gangctl.webhooks.configurations import JOBSET_CONDITION
from tests.rows import each

STAMP = {"annotations": {GANG_REF: "{}"}}


def jobset(mode: str | None = None, *, stamped: bool = False, **spec: object) -> Object:
    template: Object = {"spec": {}, **({"metadata": STAMP} if stamped else {})}
    annotations = {} if mode is None else {GANG_MODE: mode}
    return {
        "metadata": {"name": "js", **({"annotations": annotations} if annotations else {})},
        "spec": {"replicatedJobs": [{"name": "r", "template": template}], **spec},
    }


def hold(condition: dict[str, str], new: Object | None, old: Object | None = None) -> bool:
    request = {"operation": "CREATE" if old is None else "UPDATE"}
    return Conditions([condition]).hold({"object": new, "oldObject": old, "request": request})


@each(
    ("new", "old", "asked"),
    [
        pytest.param(jobset(), None, False, id="plain"),
        pytest.param(jobset("Gang"), None, True, id="annotation"),
        pytest.param(jobset(gangConfig={}), None, True, id="gangConfig"),
        pytest.param(jobset(stamped=True), None, True, id="stamp"),
        pytest.param({"metadata": {}, "spec": {}}, None, False, id="no-jobs"),
        pytest.param(jobset(), jobset("Gang"), True, id="annotation-removed"),
        pytest.param(jobset(), jobset(), False, id="plain-update"),
    ],
)
def test_the_jobset_condition_matches_gangs_only(new: Object, old: Object | None, asked: bool) -> None:
    assert hold(JOBSET_CONDITION, new, old) is asked
