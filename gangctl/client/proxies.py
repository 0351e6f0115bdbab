"""The proxy that the environment names for an API server: HTTPS_PROXY, HTTP_PROXY and NO_PROXY as Go reads them.

kubectl uses it where a kubeconfig has no ``proxy-url``. The rules are those of ``golang.org/x/net/http/httpproxy``.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from gangctl.client.kubeconfig import is_server_url


def proxy_for(server: str, environ: Mapping[str, str]) -> str | None:
    """The URL of the proxy for a server, None for a direct connection.

    A proxy of another kind than http and https is not used.
    """
    parts = urlsplit(server)
    proxy = _variable(environ, f"{parts.scheme}_proxy")
    if proxy and "://" not in proxy:
        # Go, too, takes a proxy without a scheme for one of http.
        proxy = f"http://{proxy}"
    host, port = (parts.hostname or "").rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)
    # For this machine Go uses no proxy, whatever NO_PROXY says.
    if not is_server_url(proxy) or _is_local(host):
        return None
    entries = (entry.strip() for entry in _variable(environ, "no_proxy").lower().split(","))
    return None if any(_excludes(entry, host, port) for entry in entries) else proxy


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _is_local(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _excludes(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY is about a host: a network, or an address or a domain, which may have a port."""
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ip_network(entry, strict=False)
        except ValueError:
            return False
    name, number = entry, ""
    if _address(entry) is None and ":" in entry:
        name, _, number = entry.rpartition(":")
        name = name.strip("[]")
    if number and number != str(port):
        return False
    if name == "*":
        return True
    if (excluded := _address(name)) is not None:
        return excluded == address
    domain = name.removeprefix("*")
    return bool(domain) and (host == domain or host.endswith(domain if domain.startswith(".") else f".{domain}"))
