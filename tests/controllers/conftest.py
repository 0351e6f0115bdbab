"""A scripted API server and a client of it, as the client's own tests use them."""

from tests.client.conftest import client, server, transport

__all__ = ["client", "server", "transport"]
