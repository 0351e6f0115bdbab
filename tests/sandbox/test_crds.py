from __future__ import annotations

import pytest

from gangctl.sandbox.api import Api, Caller
from gangctl.sandbox.objects import Object
from gangctl.sandbox.server import Sandbox
from tests.controlplane.wait import NotYet, wait_for
from tests.sandbox.definitions import definition

ME = Caller("me")
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
WIDGETS = "widgets.example.com"


async def _create(api: Api, body: Object) -> Object:
    return await api.create(api.kind(DEFINITIONS), "", body, ME)


async def _read(api: Api, name: str = WIDGETS) -> Object:
    return await api.get(api.kind(DEFINITIONS), "", name)


def _conditions(obj: Object) -> list[tuple[str, str, str]]:
    return [(each["type"], each["status"], each["reason"]) for each in obj["status"]["conditions"] or ()]


async def _established(api: Api, name: str = WIDGETS) -> Object:
    async def done() -> Object:
        found = await _read(api, name)
        if ("Established", "True", "InitialNamesAccepted") not in _conditions(found):
            raise NotYet(str(found["status"]))
        return found

    return await wait_for(done, 5, f"{name} to be established", interval=0.01)


@pytest.fixture
def api(sandbox: Sandbox) -> Api:
    return sandbox.api


async def test_a_definition_is_filled_in_and_established(api: Api) -> None:
    created = await _create(api, definition())
    names = {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
    nothing = {"plural": "", "kind": ""}
    assert created["spec"]["names"] == names
    assert created["spec"]["conversion"] == {"strategy": "None"}
    assert created["status"] == {"conditions": None, "acceptedNames": nothing, "storedVersions": ["v1"]}
    found = await _established(api)
    assert _conditions(found) == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert found["status"]["acceptedNames"] == names
    assert found["metadata"]["generation"] == 1
