from __future__ import annotations

import pytest

from gangctl.sandbox.api import Api, Caller
from gangctl.sandbox.errors import StatusError

ME = Caller("me")


async def _fill(api: Api, *names: str) -> None:
    for name in names:
        body = {"metadata": {"name": name, "labels": {"l": name}}}
        await api.create(api.kind("configmaps"), "default", body, ME)


async def test_pages_together_are_the_list_at_the_revision_of_the_first_page(api: Api) -> None:
    kind = api.kind("configmaps")
    await _fill(api, "a", "b", "c", "d", "e")
    first = await api.list(kind, limit=2)
    assert first.remaining == 3
    await _fill(api, "aa", "f")
    await api.delete(kind, "default", "d", ME)
    second = await api.list(kind, limit=2, token=first.token)
    assert second.remaining == 1
    third = await api.list(kind, limit=2, token=second.token)
    found = [each["metadata"]["name"] for each in (*first.items, *second.items, *third.items)]
    assert found == ["a", "b", "c", "d", "e"]
    assert first.resource_version == third.resource_version
    assert (third.token, third.remaining) == ("", None)


async def test_an_expired_continue_token_is_refused(api: Api) -> None:
    kind = api.kind("configmaps")
    await _fill(api, "a", "b", "c")
    first = await api.list(kind, limit=1)
    await _fill(api, "d")
    api.store.compact()
    with pytest.raises(StatusError) as caught:
        await api.list(kind, limit=1, token=first.token)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert "The provided continue parameter is too old" in caught.value.message
