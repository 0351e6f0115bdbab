"""URLs: ``url('https://example.com:80/path?k=v')``, read as Go's ``net/url`` reads them.

Go works on bytes and keeps invalid UTF-8; so does this, by surrogate escapes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from string import ascii_letters, digits
from typing import ClassVar, Final

from gangctl.cel.library.string_format import quoted
from gangctl.cel.library.values import Extension, Implementation, function, invalid, method, readable

LONGEST: Final = 64 * 1024
"""Characters of a URL."""
MOST_PARAMETERS: Final = 10_000
"""Limit of a query; one with more counts as empty, as natively."""

_UNRESERVED: Final = frozenset((ascii_letters + digits + "-_.~").encode())
_IN_PATH: Final = _UNRESERVED | frozenset(b"$&+,/:;=@")
_IN_HOST: Final = _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\"")
_IN_FRAGMENT: Final = _UNRESERVED | frozenset(b"$&+,/:;=?@!()*")
_IN_USERINFO: Final = _UNRESERVED | frozenset(b"$&+,;=")
_LEFT_ALONE: Final = frozenset(b"!$&'()*+,;=:@[]%")
"""Characters that are not escaped if they were not escaped before."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)?:", re.ASCII)
_USERINFO: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*", re.ASCII)
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_FIRST_NOT_ASCII: Final = 0x80


@dataclass(frozen=True, slots=True)
class Url(Extension):
    """A URL; equal when written alike."""

    KIND: ClassVar[str] = "kubernetes.URL"
    scheme: str
    host: str
    path: str
    """Escaped."""
    query: str
    text: str
    """The whole URL as Go writes it."""


def parse_request(text: str) -> Url:
    """An absolute URL, or a path from the root; ValueError when it is neither.

    A fragment is never refused, but read as a part of the path or query.
    """
    if not text:
        raise ValueError("empty url")
    return _parse(text, request=True)


def parse(text: str) -> Url:
    """The value of CEL's ``url(text)``; ValueError when there is none."""
    # Both, as stringToUrl of the API server: the first is stricter, and takes a fragment for a part of the path.
    parse_request(text)
    head, _, fragment = text.partition("#")
    return _parse(head, request=False, fragment=fragment)


def _parse(text: str, *, request: bool, fragment: str = "") -> Url:
    if len(text) > LONGEST:
        raise ValueError("too long")
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")
    if text == "*":
        return Url("", "", "*", "", _with_fragment("*", fragment))
    scheme, rest = _scheme(text)
    lone_mark = rest.endswith("?") and rest.count("?") == 1
    rest, _, query = rest.partition("?")
    tail = f"?{query}" if query or lone_mark else ""
    if not rest.startswith("/"):
        if scheme:
            # Opaque: mailto:somebody@example.com.
            return Url(scheme, "", "", query, _with_fragment(f"{scheme}:{rest}{tail}", fragment))
        if request:
            raise ValueError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    user = host = ""
    slashes = ""
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        user, host = _authority(scheme, authority)
        slashes = "//" if host or user or rest else ""
    plain = _unescape(rest)
    path = rest if _is_escaped(rest, _IN_PATH) else _escape(plain, _IN_PATH)
    head = f"{scheme}:" if scheme else ""
    whole = f"{head}{slashes}{user}{_escape(_bytes(host), _IN_HOST)}{path}{tail}"
    return Url(scheme, host, path, query, _with_fragment(whole, fragment))


def _with_fragment(text: str, fragment: str) -> str:
    if not fragment:
        return text
    plain = _unescape(fragment)
    kept = _is_escaped(fragment, _IN_FRAGMENT)
    return f"{text}#{fragment if kept else _escape(plain, _IN_FRAGMENT)}"


def _scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.match(text)
    if match is None:
        return "", text
    if not match[1]:
        raise ValueError("missing protocol scheme")
    return match[1].lower(), text[match.end() :]


def _authority(scheme: str, text: str) -> tuple[str, str]:
    """User and password as written, with their ``@``, and the host with its port."""
    userinfo, at, host = text.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return "", host
    if not _USERINFO.fullmatch(userinfo):
        raise ValueError("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(":")
    return f"{_escape(_unescape(name), _IN_USERINFO)}{colon}{_escape(_unescape(password), _IN_USERINFO)}@", host


def _host(scheme: str, text: str) -> str:
    bracket = text.rfind("[")
    if bracket > 0:
        raise ValueError("invalid IP-literal")
    if bracket == 0:
        return _bracketed(text)
    colon = text.find(":")
    if colon >= 0:
        if scheme not in {"http", "https"}:
            colon = text.rfind(":")
        if not _PORT.fullmatch(text[colon:]):
            raise ValueError(f"invalid port {quoted(text[colon:])} after host")
    return _text(_unescape_host(text))


def _bracketed(text: str) -> str:
    end = text.rfind("]")
    if end < 0:
        raise ValueError("missing ']' in host")
    if not _PORT.fullmatch(text[end + 1 :]):
        raise ValueError(f"invalid port {quoted(text[end + 1 :])} after host")
    name, percent, zone = text[1:end].partition("%25")
    address = _text(_unescape_host(name)) + (_text(_unescape(f"%25{zone}")) if percent else "")
    try:
        IPv6Address(address)
    except AddressValueError:
        raise ValueError("invalid host") from None
    return f"[{address}]{text[end + 1 :]}"


def _unescape(text: str, *, plus: bytes = b"+") -> bytes:
    raw = _bytes(text).replace(b"+", plus)
    head, *parts = raw.split(b"%")
    plain = [head]
    for part in parts:
        if not re.match(rb"[0-9A-Fa-f]{2}", part):
            raise ValueError(f"invalid URL escape {quoted(_shown(b'%' + part[:2]))}")
        plain += (bytes((int(part[:2], 16),)), part[2:])
    return b"".join(plain)


def _unescape_host(text: str) -> bytes:
    """In a host only non-ASCII bytes may be escaped."""
    for escape in re.findall(r"%[0-7][0-9A-Fa-f]", text):
        if escape != "%25":
            raise ValueError(f"invalid URL escape {quoted(escape)}")
    for byte in _bytes(text):
        if byte < _FIRST_NOT_ASCII and byte not in _IN_HOST and byte != ord("%"):
            raise ValueError(f"invalid character {quoted(chr(byte))} in host name")
    return _unescape(text)


def _escape(raw: bytes, plain: frozenset[int]) -> str:
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in raw)


def _is_escaped(text: str, plain: frozenset[int]) -> bool:
    return all(byte in plain or byte in _LEFT_ALONE for byte in _bytes(text))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _split_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.fullmatch(f":{port}"):
        name, port = host, ""
    return (name[1:-1] if name.startswith("[") and name.endswith("]") else name), port


def _get_query(url: Url) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    if url.query.count("&") >= MOST_PARAMETERS:
        return values
    for parameter in url.query.split("&"):
        name, _, value = parameter.partition("=")
        # As Go's parseQuery, for which a semicolon is an error of its parameter.
        if not parameter or ";" in parameter:
            continue
        try:
            key, entry = _unescape(name, plus=b" "), _unescape(value, plus=b" ")
        except ValueError:
            continue
        values.setdefault(_shown(key), []).append(_shown(entry))
    return values


def _shown(raw: bytes) -> str:
    """Strings of CEL are UTF-8."""
    return raw.decode("utf-8", "replace")


def _url(text: str) -> Url:
    try:
        return parse(text)
    except ValueError:
        # The message would quote parts of it.
        raise invalid("url: not an absolute URL") from None


_KIND: Final = Url.KIND
OVERLOADS: Final[tuple[Implementation, ...]] = (
    function("url", _url, "string"),
    function("isURL", readable(parse_request), "string"),
    method("getScheme", lambda url: url.scheme, _KIND),
    method("getHost", lambda url: _shown(_bytes(url.host)), _KIND),
    method("getHostname", lambda url: _shown(_bytes(_split_port(url.host)[0])), _KIND),
    method("getPort", lambda url: _split_port(url.host)[1], _KIND),
    method("getEscapedPath", lambda url: url.path, _KIND),
    method("getQuery", _get_query, _KIND),
)
