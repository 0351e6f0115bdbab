"""A scripted API server and a client of it, as the client's own tests use them, and policies beside a sandbox."""

from tests.client.conftest import client, server, transport
from tests.controllers.policycontext import context

__all__ = ["client", "context", "server", "transport"]
