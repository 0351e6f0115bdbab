from __future__ import annotations

import pytest

from gangctl.sandbox.api import Api, Caller
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.reads import ListQuery, ListResult, page

ME = Caller("me")


def listed(api: Api, limit: int, token: str = "") -> ListResult:
    return page(api.store, api.kind("configmaps"), None, ListQuery(limit=limit, token=token))


async def _fill(api: Api, *names: str) -> None:
    for name in names:
        body = {"metadata": {"name": name, "labels": {"l": name}}}
        await api.create(api.kind("configmaps"), "default", body, ME)


async def test_an_expired_continue_token_is_refused_with_one_for_the_rest(api: Api) -> None:
    await _fill(api, "a", "b", "c")
    first = listed(api, 1)
    await _fill(api, "d")
    api.store.compact()
    with pytest.raises(StatusError) as caught:
        listed(api, 1, first.token)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert "The provided continue parameter is too old" in caught.value.message
    rest = listed(api, 2, caught.value.body()["metadata"]["continue"])
    assert [stored.obj["metadata"]["name"] for stored in rest.items] == ["b", "c"]
    assert [stored.obj["metadata"]["name"] for stored in listed(api, 2, rest.token).items] == ["d"]
