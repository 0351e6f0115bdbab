"""Webhook endpoints: from the bytes of an AdmissionReview to the bytes of its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from gangctl.webhooks.review import AdmissionRequest, AdmissionResponse, decode_review, encode_review

Handler = Callable[[AdmissionRequest], AdmissionResponse | Awaitable[AdmissionResponse]]
"""Answers from memory, or after a request."""

Endpoint = Callable[[bytes], Awaitable[bytes]]
Observe = Callable[[str, str, float], None]
"""Called for every answer with the path, ``allowed``, ``patched``, ``denied`` or ``unready``, and the seconds it took.
"""

WAIT_SECONDS: Final = 5.0
"""How long a request waits for the caches right after a start; the API server itself waits ten."""

_UNREADY: Final = AdmissionResponse.deny(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "ServiceUnavailable",
    "gangctl has just started and does not know the cluster yet: try again in a few seconds",
)


def build_endpoints(
    handlers: Mapping[str, Handler],
    ready: Callable[[], Awaitable[object]],
    observe: Observe,
    unready: Callable[[str], AdmissionResponse] = lambda _: _UNREADY,
) -> dict[str, Endpoint]:
    """Endpoints by path; each request first waits a little until ``ready`` returns.

    After a timeout the answer is ``unready`` of its path. A body that is not an AdmissionReview raises
    :class:`~gangctl.errors.InputError`.
    """
    return {path: _endpoint(path, handler, ready, observe, unready) for path, handler in handlers.items()}


def _endpoint(
    path: str,
    handler: Handler,
    ready: Callable[[], Awaitable[object]],
    observe: Observe,
    unready: Callable[[str], AdmissionResponse],
) -> Endpoint:
    async def endpoint(body: bytes) -> bytes:
        began = time.perf_counter()
        request = decode_review(body)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await ready()
        except TimeoutError:
            answer, verdict = unready(path), "unready"
        else:
            answered = handler(request)
            answer = answered if isinstance(answered, AdmissionResponse) else await answered
            verdict = "denied" if not answer.allowed else "patched" if answer.patch else "allowed"
        observe(path, verdict, time.perf_counter() - began)
        return encode_review(request, answer)

    return endpoint
