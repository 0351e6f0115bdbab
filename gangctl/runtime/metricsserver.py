"""The TLS listener of ``/metrics``, for clients that the API server authenticates and authorizes.

The API server reviews a bearer token, and whether its user may get the path. Answers are cached for a short time, so
that a client that scrapes every few seconds costs the API server little; digests are kept instead of tokens. Without an
answer of the API server the request is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import structlog
from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gangctl.client.client import Client
from gangctl.client.pacing import Clock, TokenBucket
from gangctl.client.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from gangctl.errors import ApiError, ForbiddenError, one_line
from gangctl.runtime.server import HttpRefusal, Listener, ListenerOptions, allow

_log = structlog.get_logger(__name__)

_CHALLENGE: Final[Mapping[str, str]] = {"WWW-Authenticate": 'Bearer realm="gangctl"'}

_LATER: Final[Mapping[str, str]] = {"Retry-After": "5"}


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """How long answers are cached, in seconds, how many, and how often the API server is asked.

    Beyond ``most_waiting`` callers with unknown tokens, further ones are refused.
    """

    allowed_seconds: float = 30.0
    refused_seconds: float = 10.0
    most_kept: int = 1024
    qps: float = 20.0
    burst: int = 40
    most_waiting: int = 64
    timeout_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class _Answer:
    refusal: tuple[HTTPStatus, str] | None
    until: float


class AccessReviewer:
    """Reviews whether a caller may get one non-resource path (``nonResourceURLs`` in RBAC)."""

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        hint: str = "",
        options: ReviewOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Ask nothing yet; ``hint`` is shown to unauthorized callers."""
        self._client = client
        self._path = path
        self._hint = f": {hint}" if hint else ""
        self._options = options or ReviewOptions()
        self._clock = clock or Clock()
        self._pace = TokenBucket(self._options.qps, self._options.burst, self._clock)
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[_Answer]] = {}
        self._trouble = ""

    async def admit(self, authorization: str) -> None:
        """Return if the sender of this ``Authorization`` header may get the path.

        Raises a :class:`~gangctl.runtime.server.HttpRefusal`: 401 without a valid token, 403 for a user without
        permission, 429 when too many ask, 503 when the API server does not answer.
        """
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or not token.isascii():
            raise HttpRefusal(HTTPStatus.UNAUTHORIZED, "a bearer token of this cluster is required", **_CHALLENGE)
        answer = await self._answer(token)
        if answer.refusal is not None:
            status, text = answer.refusal
            raise HttpRefusal(status, text, **(_CHALLENGE if status is HTTPStatus.UNAUTHORIZED else {}))

    async def _answer(self, token: str) -> _Answer:
        """The cached answer for a token, or else the API server's; callers with the same token share one request."""
        digest = hashlib.sha256(token.encode()).digest()
        known = self._answers.get(digest)
        if known is not None and self._clock.now() < known.until:
            return known
        asking = self._asking.get(digest)
        if asking is None:
            # A caller whose answer has just expired need not wait behind unknown ones.
            if known is None and len(self._asking) >= self._options.most_waiting:
                raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, "too many callers are not known yet", **_LATER)
            asking = self._asking[digest] = asyncio.create_task(self._ask(token))
            asking.add_done_callback(lambda done: self._keep(digest, done))
        # A caller that disconnects must not cancel the request of the others.
        return await asyncio.shield(asking)

    def _keep(self, digest: bytes, done: asyncio.Task[_Answer]) -> None:
        del self._asking[digest]
        # An error is no answer about the token: the next caller asks again.
        if done.cancelled() or done.exception() is not None:
            return
        self._answers[digest] = done.result()
        self._answers.move_to_end(digest)
        while len(self._answers) > self._options.most_kept:
            self._answers.popitem(last=False)

    async def _ask(self, token: str) -> _Answer:
        try:
            await self._pace.acquire()
            status = await self._review(TOKEN_REVIEWS, {"token": token})
            user = status.get("user")
            if status.get("authenticated") is not True or not isinstance(user, dict):
                return self._refused(HTTPStatus.UNAUTHORIZED, "this token does not count here, or not any more")
            attributes = {"path": self._path, "verb": "get"}
            spec = {key: user[key] for key in ("groups", "uid", "extra") if user.get(key)}
            spec |= {"user": user.get("username", ""), "nonResourceAttributes": attributes}
            if (await self._review(SUBJECT_ACCESS_REVIEWS, spec)).get("allowed") is not True:
                name = one_line(str(user.get("username", "")), 256)
                text = f'user "{name}" may not get {self._path}{self._hint}'
                return self._refused(HTTPStatus.FORBIDDEN, text)
        except ApiError as error:
            self._log_error(error)
            text = "the API server does not say who you are: try again later, and see the log of gangctl"
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, text) from error
        self._trouble = ""
        return _Answer(None, self._clock.now() + self._options.allowed_seconds)

    def _refused(self, status: HTTPStatus, text: str) -> _Answer:
        self._trouble = ""
        return _Answer((status, text), self._clock.now() + self._options.refused_seconds)

    async def _review(self, resource: Resource, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        answer = await self._client.create(resource, body, timeout_seconds=self._options.timeout_seconds)
        status = answer.get("status")
        return status if isinstance(status, dict) else {}

    def _log_error(self, error: ApiError) -> None:
        """Log an error once; with its text only if a permission is missing, because others may quote a token."""
        words = error.message if isinstance(error, ForbiddenError) else type(error).__name__
        if words != self._trouble:
            _log.warning("no client can be allowed: no answer to a review", error=words, status=error.status)
        self._trouble = words


class _Collected(Collector):
    """Families that were collected before."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def exposition(registry: CollectorRegistry, request: web.BaseRequest) -> web.Response:
    """Write all metrics in the format that the request prefers."""
    encode, content_type = choose_encoder(",".join(request.headers.getall(hdrs.ACCEPT, [])))
    # Collected here, because collectors read data of this thread; formatted elsewhere, because thirty thousand lines
    # would delay admission.
    families = list(registry.collect())
    text = await asyncio.to_thread(encode, _Collected(families))
    # Compressed elsewhere too, when it is long.
    response = web.Response(body=text, headers={hdrs.CONTENT_TYPE: content_type}, zlib_executor_size=2**16)
    response.enable_compression()
    return response


PATH: Final = "/metrics"


class MetricsServer(Listener):
    """Serves the metrics of ``registry`` to reviewed clients."""

    def __init__(
        self,
        address: tuple[str, int],
        tls: ssl.SSLContext,
        reviewer: AccessReviewer,
        registry: CollectorRegistry,
        *,
        options: ListenerOptions | None = None,
    ) -> None:
        """Do nothing yet; see :class:`Listener` for starting and stopping."""
        super().__init__("metrics", self._serve, address, tls=tls, options=options)
        self._reviewer = reviewer
        self._registry = registry

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        if request.path != PATH:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, f"nothing here: {PATH}")
        allow(request, hdrs.METH_GET, hdrs.METH_HEAD)
        given = request.headers.getall(hdrs.AUTHORIZATION, [])
        # With two tokens the user of the request is ambiguous.
        await self._reviewer.admit(given[0] if len(given) == 1 else "")
        return await exposition(self._registry, request)
