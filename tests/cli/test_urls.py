"""URLs for `-f`: read as kubectl reads them, and refused in one line."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from gangctl.cli.urls import read_url
from gangctl.errors import InputError
from tests.cli.manifests import gang
from tests.cli.run import fine, gangctl
from tests.controlplane.pki import Authority
from tests.rows import each


class Manifests(BaseHTTPRequestHandler):
    """Answers with a JobSet, a redirect to it, or an error."""

    def do_GET(self) -> None:
        body = b"" if self.path.startswith("/moved") else b"a: [" if self.path == "/broken" else JOBSET
        code = {"/moved": 302, "/moved-to-a-file": 302, "/missing": 404}.get(self.path, 200)
        self.send_response(code)
        self.send_header("Location", "file:///etc/hostname" if self.path == "/moved-to-a-file" else "/a.json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


JOBSET = json.dumps(gang("one")).encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    """Serve the manifests on a port of loopback."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Manifests) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def address(server: ThreadingHTTPServer) -> str:
    return f"127.0.0.1:{server.server_port}"


@each("path", ["/a.json", "/moved", "/a.json?token=secret"])
def test_a_manifest_is_read_from_a_url(path: str, address: str) -> None:
    answer = fine("plan", "-f", f"http://{address}{path}", "-o", "json")
    assert answer.json["metadata"]["name"] == "one"


@each(
    ("path", "message"),
    [
        ("/missing", "/missing: HTTP 404 Not Found"),
        ("/moved-to-a-file", "/moved-to-a-file: HTTP 302 Found"),
        ("/broken", "/broken:1:5: "),
    ],
)
def test_an_error_names_the_url(path: str, message: str, address: str) -> None:
    answer = gangctl("plan", "-f", f"http://{address}{path}")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: http://{address}{message}")


def test_passwords_and_queries_are_not_shown(address: str) -> None:
    answer = gangctl("plan", "-f", f"http://me:hunter2@{address}/missing?token=hunter3")
    assert answer.err.startswith("error: http://127.0.0.1:")
    assert "hunter" not in answer.err


HEAD: Final = b"HTTP/1.1 200 OK\r\n"
CHUNKED: Final = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
DRIPS: Final[dict[str, tuple[bytes, bytes]]] = {
    "body": (HEAD + b"Content-Length: 4000000\r\n\r\n", b"#"),
    "body without a length": (HEAD + b"\r\n", b"#"),
    "headers": (HEAD, b"a"),
    "more headers": (HEAD, b"a: b\r\n"),
    "chunks": (CHUNKED, b"1\r\n#\r\n"),
    "length of a chunk": (CHUNKED, b"0"),
}


@each("place", DRIPS)
def test_a_server_that_drips_has_a_minute_all_in_all(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each drop comes in time, and the last one never."""
    monkeypatch.setattr("gangctl.cli.urls._WHOLE_SECONDS", 0.1)
    refused = threading.Event()
    beginning, drop = DRIPS[place]

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(2**16)
            connection.sendall(beginning + drop)
            refused.wait()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/a.yaml"
        with pytest.raises(InputError, match=rf"^{url}: not read to its end within 0\.1 s$"):
            read_url(url, 2**23)
        refused.set()
        thread.join()


@each(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1/a", "connection refused"),
        ("http://127.0.0.1:port/a", "not a valid URL"),
        ("http://[::1/a", "not a valid URL"),
        ("http:///a", "not a valid URL"),
    ],
)
def test_an_unreadable_url_is_an_error(url: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    answer = gangctl("plan", "-f", url)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith(f": cannot be read: {reason}\n")


def test_a_server_with_an_untrusted_certificate_is_an_error(
    server: ThreadingHTTPServer, address: str, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = Authority("other", tmp_path).server("manifests")
    context.load_cert_chain(pair.certificate, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    answer = gangctl("plan", "-f", f"https://{address}/a.json")
    assert answer.err == f"error: https://{address}/a.json: cannot be read: unable to get local issuer certificate\n"
