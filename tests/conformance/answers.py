"""What a client receives: an error with its code, reason, message and causes, or an answer with its headers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

import pytest

from tests.controlplane.api import Answer, ApiClient, ApiFailure, Object, Parameter

Cause = tuple[str, str]
Causes = Sequence[Cause]


@dataclass(frozen=True)
class Refusal:
    """A call that the server must refuse with this code and reason."""

    code: int
    reason: str

    async def __call__(
        self,
        call: Awaitable[object],
        message: str | None = None,
        *,
        saying: str | Sequence[str] = (),
        causes: Causes | None = None,
    ) -> ApiFailure:
        """`message` is the whole message, `saying` are parts of it, `causes` are all (reason, field) of its causes."""
        with pytest.raises(ApiFailure) as caught:
            await call
        failure = caught.value
        assert (failure.status, failure.reason) == (self.code, self.reason), failure
        assert (failure.body["kind"], failure.body["status"], failure.body["code"]) == ("Status", "Failure", self.code)
        if message is not None:
            assert failure.message == message
        for part in [saying] if isinstance(saying, str) else saying:
            assert part in failure.message
        if causes is not None:
            assert causes_of(failure) == sorted(causes), failure.body
        return failure


bad_request = Refusal(400, "BadRequest")
forbidden = Refusal(403, "Forbidden")
not_found = Refusal(404, "NotFound")
already_exists = Refusal(409, "AlreadyExists")
conflict = Refusal(409, "Conflict")
invalid = Refusal(422, "Invalid")
internal_error = Refusal(500, "InternalError")


def causes_of(failure: ApiFailure) -> list[Cause]:
    """
    details.causes as (reason, field), sorted and each once.

    The order of conflicts is that of a Go map, and some releases repeat a cause for each time they looked at it.
    """
    details = failure.body.get("details") or {}
    return sorted({(cause.get("reason", ""), cause.get("field", "")) for cause in details.get("causes") or []})


def details_of(failure: ApiFailure) -> Object:
    """details without the causes: which object of which kind it is about."""
    details = failure.body.get("details") or {}
    return {key: value for key, value in details.items() if key != "causes"}


async def send(
    api: ApiClient,
    method: str,
    path: str,
    body: object = None,
    content_type: str = "application/json",
    **parameters: Parameter,
) -> Answer:
    """One request whose answer is looked at as a whole; a body that is text goes out as it is."""
    data = body if body is None or isinstance(body, str) else json.dumps(body)
    headers = {} if body is None else {"Content-Type": content_type}
    return await api.exchange(method, path, data=data, parameters=parameters, headers=headers)


def warnings_of(answer: Answer) -> list[str]:
    """The texts of the Warning headers (RFC 7234, code 299)."""
    texts = []
    for header in answer.headers.getall("Warning", []):
        code, agent, text = header.split(" ", 2)
        assert (code, agent) == ("299", "-")
        texts.append(json.loads(text))
    return texts
