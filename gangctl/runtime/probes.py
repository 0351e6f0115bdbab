"""The plain HTTP listener: ``/healthz`` and ``/readyz``, and ``/metrics`` where it needs no authentication.

The probes answer like the API server's: ``ok`` when every check passes, else, or with ``?verbose``, one line for each
named check; ``/readyz/NAME`` runs one check. One of them is whether our own TLS listener answers as an API server would
see it, from inside, without the network between.
"""

from __future__ import annotations

import asyncio
import inspect
import ssl
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

import structlog
from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry

from gangctl.errors import ConfigError
from gangctl.runtime.certsource import Serving
from gangctl.runtime.metricsserver import exposition
from gangctl.runtime.server import HEALTH_PATH, HttpRefusal, Listener, ListenerOptions, allow, text_response
from gangctl.runtime.tls import client_context, covered


async def self_check(address: tuple[str, int], serving: Serving) -> str | None:
    """Call the listener at ``address`` once; None when it answers and is trusted, else the problem.

    It is verified with the authorities in the caBundle, or, when another component manages that, by being exactly the
    certificate that should be served. Takes as long as the connection does: the caller must bound it.
    """
    try:
        return await _ask(_reachable(address), _trust(serving), _name(serving))
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not trusted: {error.verify_message}"
    except OSError as error:
        return f"it cannot be reached: {error}"
    except ConfigError as error:
        return error.message


async def _ask(address: tuple[str, int], context: ssl.SSLContext, name: str) -> str | None:
    reader, writer = await asyncio.open_connection(*address, ssl=context, server_hostname=name)
    try:
        writer.write(f"GET {HEALTH_PATH} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
        status = (await reader.read()).split(b" ")
    finally:
        writer.close()
        await writer.wait_closed()
    return None if status[1:2] == [b"200"] else "it answers, but not that it is well"


def _reachable(address: tuple[str, int]) -> tuple[str, int]:
    """Where to connect to a listener: all addresses means loopback too."""
    host, port = address
    ip = ip_address(host)
    if ip.is_unspecified:
        return ("127.0.0.1" if ip.version == 4 else "::1"), port  # noqa: PLR2004 - IPv4
    return host, port


def _trust(serving: Serving) -> ssl.SSLContext:
    context = client_context(serving.authorities or serving.pair.chain)
    if not serving.authorities:
        # The served certificate itself is trusted, which need not be an authority's.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _name(serving: Serving) -> str:
    """Any one of the names that the certificate is for: the choice does not affect the check."""
    names = sorted(covered(serving.pair.chain))
    if not names:
        raise ConfigError("the certificate is for no host")
    return names[0]


_log = structlog.get_logger(__name__)

# None when the check passes, else the problem; at most one line, and nothing secret: any client may read it.
Check = Callable[[], str | Awaitable[str | None] | None]

_CHECK_SECONDS: Final = 5.0


class ProbeServer(Listener):
    """Serves the probes and, when there is a ``registry``, the metrics."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        ready: Callable[[], Mapping[str, Check]] = dict,
        registry: CollectorRegistry | None = None,
        options: ListenerOptions | None = None,
        check_seconds: float = _CHECK_SECONDS,
    ) -> None:
        """Do nothing yet; a check that takes longer than ``check_seconds`` has failed.

        ``ready`` returns the checks by name, at each request: the first comes before everything is set up.
        """
        super().__init__("probes", self._serve, address, options=options)
        self._checks: dict[str, Callable[[], Mapping[str, Check]]] = {"healthz": dict, "readyz": ready}
        self._registry = registry
        self._check_seconds = check_seconds

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        allow(request, hdrs.METH_GET, hdrs.METH_HEAD)
        probe, _, name = request.path.removeprefix("/").partition("/")
        if probe in self._checks:
            return await self._probe(probe, name, verbose="verbose" in request.query)
        if request.path == "/metrics" and self._registry is not None:
            return await exposition(self._registry, request)
        pages = "/healthz, /readyz" if self._registry is None else "/healthz, /readyz, /metrics"
        raise HttpRefusal(HTTPStatus.NOT_FOUND, f"nothing here: {pages}")

    async def _probe(self, probe: str, name: str, *, verbose: bool) -> web.Response:
        checks = self._checks[probe]()
        if name:
            if name not in checks:
                raise HttpRefusal(HTTPStatus.NOT_FOUND, f"{probe} has no such check")
            checks = {name: checks[name]}
        results = await asyncio.gather(*(self._run(probe, label, check) for label, check in checks.items()))
        failed = any(problem is not None for problem in results)
        if not failed and not verbose:
            return text_response(HTTPStatus.OK, "ok")
        lines = [
            f"[+]{label} ok" if problem is None else f"[-]{label} failed: {problem}"
            for label, problem in zip(checks, results, strict=True)
        ]
        lines.append(f"{probe} check {'failed' if failed else 'passed'}")
        return text_response(HTTPStatus.SERVICE_UNAVAILABLE if failed else HTTPStatus.OK, "\n".join(lines))

    async def _run(self, probe: str, name: str, check: Check) -> str | None:
        try:
            async with asyncio.timeout(self._check_seconds):
                result = check()
                problem = await result if inspect.isawaitable(result) else result
        except TimeoutError:
            return f"no answer within {self._check_seconds:g} s"
        except Exception as error:  # noqa: BLE001 - a broken check is a failed one
            _log.exception("check failed", probe=probe, check=name)
            return f"the check itself failed ({type(error).__name__})"
        return None if problem is None else " ".join(problem.split())
