"""What an API server refuses of probes and hooks: ``validateProbe`` and ``validateLifecycle`` of core/validation.

Left out are stop signals.
"""

from __future__ import annotations

import re
from typing import Final

from gangctl.api.names import port_name
from gangctl.apiserver.metadata import Causes, Object

PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
MOST_PORT: Final = 65_535
_ACTIONS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SCHEMES: Final = ("HTTP", "HTTPS")
_HEADER: Final = re.compile("[-A-Za-z0-9]+")
_COUNTS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def validate_probes(container: Object, grace: int, path: str, causes: Causes) -> None:
    """Check the probes and hooks of a container whose pod has ``grace`` seconds to end."""
    for field in ("postStart", "preStop"):
        hook = (container.get("lifecycle") or {}).get(field)
        if hook is not None:
            _action(hook, grace, f"{path}.lifecycle.{field}", causes)
    for field in PROBES:
        if field in container:
            _probe(field, container[field], grace, f"{path}.{field}", causes)


def _probe(field: str, probe: Object, grace: int, path: str, causes: Causes) -> None:
    _action(probe, grace, path, causes)
    for count in _COUNTS:
        if probe.get(count, 0) < 0:
            causes.invalid(f"{path}.{count}", probe[count], "must be greater than or equal to 0")
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        causes.invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0")
    if field == "readinessProbe":
        if seconds is not None:
            causes.invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes")
    # The default of 0 is 1.
    elif (threshold := probe.get("successThreshold", 0)) not in {0, 1}:
        causes.invalid(f"{path}.successThreshold", threshold, "must be 1")


def _action(holder: Object, grace: int, path: str, causes: Causes) -> None:
    given = [field for field in _ACTIONS if field in holder]
    if not given:
        causes.required(path, "must specify a handler type")
        return
    for field in given[1:]:
        causes.forbidden(f"{path}.{field}", "may not specify more than 1 handler type")
    action, place = holder[given[0]], f"{path}.{given[0]}"
    match given[0]:
        case "exec":
            if not action.get("command"):
                causes.required(f"{place}.command")
        case "sleep":
            if not 0 <= (seconds := action.get("seconds", 0)) <= grace:
                detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                causes.invalid(place, seconds, detail)
        case _:
            _port(action.get("port", 0), f"{place}.port", causes)
            if (scheme := action.get("scheme") or "HTTP") not in _SCHEMES:
                causes.unsupported(f"{place}.scheme", scheme, _SCHEMES)
            for header in action.get("httpHeaders") or ():
                name = header.get("name", "")
                if _HEADER.fullmatch(name) is None:
                    detail = "a valid HTTP header must consist of alphanumeric characters or '-'"
                    # Without an index, as ``validateHTTPGetAction`` reports it.
                    causes.invalid(f"{place}.httpHeaders", name, detail)


def _port(port: int | str, path: str, causes: Causes) -> None:
    if isinstance(port, str):
        causes.invalid_each(path, port, port_name(port))
    elif not 0 < port <= MOST_PORT:
        causes.invalid(path, port, f"must be between 1 and {MOST_PORT}, inclusive")
