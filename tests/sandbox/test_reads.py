from __future__ import annotations

import pytest

from gangctl.sandbox.api import Api, Caller
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.reads import ListQuery, Page, page

ME = Caller("me")


def listed(api: Api, limit: int, token: str = "") -> Page:
    return page(api.store, api.kind("configmaps"), None, ListQuery(limit=limit, token=token))


async def _fill(api: Api, *names: str) -> None:
    for name in names:
        body = {"metadata": {"name": name, "labels": {"l": name}}}
        await api.create(api.kind("configmaps"), "default", body, ME)


async def test_pages_together_are_the_list_at_the_revision_of_the_first_page(api: Api) -> None:
    await _fill(api, "a", "b", "c", "d", "e")
    first = listed(api, 2)
    assert first.remaining == 3
    await _fill(api, "aa", "f")
    await api.delete(api.kind("configmaps"), "default", "d", ME)
    second = listed(api, 2, first.token)
    assert second.remaining == 1
    third = listed(api, 2, second.token)
    found = [stored.obj["metadata"]["name"] for stored in (*first.items, *second.items, *third.items)]
    assert found == ["a", "b", "c", "d", "e"]
    assert first.revision == third.revision
    assert (third.token, third.remaining) == ("", None)


async def test_an_expired_continue_token_is_refused(api: Api) -> None:
    await _fill(api, "a", "b", "c")
    first = listed(api, 1)
    await _fill(api, "d")
    api.store.compact()
    with pytest.raises(StatusError) as caught:
        listed(api, 1, first.token)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert "The provided continue parameter is too old" in caught.value.message
