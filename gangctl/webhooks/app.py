"""The webhook endpoints as an aiohttp application: bytes in, an AdmissionReview out, never a traceback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from gangctl.errors import InputError
from gangctl.webhooks.review import AdmissionRequest, AdmissionResponse, decode_review, encode_review

Handler = Callable[[AdmissionRequest], AdmissionResponse]
Observe = Callable[[str, str, float], None]
"""Told of every answer: the path, ``allowed``, ``patched``, ``denied`` or ``unready``, and the seconds it took."""

PATIENCE_SECONDS: Final = 5.0
"""How long a request waits for the caches right after a start; the API server itself waits ten."""
UNAVAILABLE: Final = 503


def build_app(
    routes: Mapping[str, Handler], ready: Callable[[], Awaitable[object]], observe: Observe, *, max_body_bytes: int
) -> web.Application:
    """Answer POSTs on the paths of ``routes``; each first waits a little for ``ready``."""
    app = web.Application(client_max_size=max_body_bytes)
    for path, handler in routes.items():
        app.router.add_post(path, _endpoint(path, handler, ready, observe))
    return app


def _endpoint(
    path: str, handler: Handler, ready: Callable[[], Awaitable[object]], observe: Observe
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def endpoint(request: web.Request) -> web.Response:
        began = time.perf_counter()
        try:
            review = decode_review(await request.read())
        except InputError as error:
            return web.Response(status=web.HTTPBadRequest.status_code, text=f"{error}\n")
        try:
            await asyncio.wait_for(_awaited(ready), PATIENCE_SECONDS)
        except TimeoutError:
            answer, verdict = _unready(), "unready"
        else:
            answer = handler(review)
            verdict = "denied" if not answer.allowed else "patched" if answer.patch else "allowed"
        observe(path, verdict, time.perf_counter() - began)
        return web.Response(body=encode_review(review, answer), content_type="application/json")

    return endpoint


async def _awaited(ready: Callable[[], Awaitable[object]]) -> object:
    return await ready()


def _unready() -> AdmissionResponse:
    message = "gangctl has just started and does not know the cluster yet: try again in a few seconds"
    return AdmissionResponse.deny(UNAVAILABLE, "ServiceUnavailable", message)
