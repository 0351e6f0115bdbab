"""Tables as a client asks for them, and what is in them."""

import re
from typing import Any

from tests.conformance.grounds import Server
from tests.controlplane.api import Object, Parameter

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ACCEPT = f"{TABLE},application/json"


async def ask(server: Server, path: str, accept: str = ACCEPT, **parameters: Parameter) -> Object:
    """The answer to a GET; a Table by default, or what `accept` requests."""
    answer = await server.api.exchange("GET", path, parameters=parameters, headers={"Accept": accept})
    assert answer.status == 200, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    table: Object = answer.body
    return table


def shown(table: Object, *, wide: bool = False) -> list[str]:
    """The names of its columns."""
    return [each["name"] for each in table["columnDefinitions"] if wide or not each["priority"]]


def cells(table: Object) -> list[list[Any]]:
    """The cells of its rows, with AGE in place of every age."""
    return [[_aged(cell) for cell in row["cells"]] for row in table["rows"]]


def _aged(cell: Any) -> Any:
    return "AGE" if isinstance(cell, str) and re.fullmatch(r"\d+[smhdy](\d+[smhd])?", cell) else cell
