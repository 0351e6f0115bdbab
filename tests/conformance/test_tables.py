"""Tables, which ``kubectl get`` asks for: when, and what they have beside cells."""

import json

from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps
from tests.conformance.tables import ACCEPT, TABLE, ask, cells, shown
from tests.controlplane.api import Object, Parameter
from tests.controlplane.wait import NotYet, wait_for


async def test_a_table_has_the_metadata_of_its_list(server: Server, namespace: str) -> None:
    for name in "abc":
        await server.api.create(configmaps(namespace), configmap(name, {"k": "v"}, labels={"l": name}))

    # A list has its version, and what continues it.
    table = await ask(server, configmaps(namespace), limit=2, labelSelector="l")
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"]["resourceVersion"].isdecimal()
    assert table["metadata"]["continue"]
    assert cells(table) == [["a", 1, "AGE"], ["b", 1, "AGE"]]
    assert [
        {key: value for key, value in each.items() if key != "description"} for each in table["columnDefinitions"]
    ] == [
        {"name": "Name", "type": "string", "format": "name", "priority": 0},
        {"name": "Data", "type": "string", "format": "", "priority": 0},
        {"name": "Age", "type": "string", "format": "", "priority": 0},
    ]

    # One object has its own version.
    table = await ask(server, configmaps(namespace, "a"))
    stored = await server.api.get(configmaps(namespace, "a"))
    assert table["metadata"] == {"resourceVersion": stored["metadata"]["resourceVersion"]}
    assert cells(table) == [["a", 1, "AGE"]]

    # What is created is shown, too.
    headers = {"Content-Type": "application/json", "Accept": ACCEPT}
    answer = await server.api.exchange("POST", configmaps(namespace), data=json.dumps(configmap("d")), headers=headers)
    assert (answer.status, cells(answer.body)) == (201, [["d", 0, "AGE"]])

    # A failure is no table.
    answer = await server.api.exchange("GET", configmaps(namespace, "nothing"), headers={"Accept": ACCEPT})
    assert (answer.status, answer.body["kind"]) == (404, "Status")


async def test_include_object_selects_what_a_row_has_of_its_object(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), configmap("a", {"k": "v"}, labels={"l": "x"}))
    stored = await server.api.get(configmaps(namespace, "a"))
    for asked in ("", "Metadata"):
        (row,) = (await ask(server, configmaps(namespace, "a"), includeObject=asked))["rows"]
        assert row["object"] == {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": stored["metadata"],
        }
    (row,) = (await ask(server, configmaps(namespace, "a"), includeObject="Object"))["rows"]
    assert row["object"] == stored


async def test_the_first_supported_media_type_is_returned(server: Server, namespace: str) -> None:
    unknown = "application/json;as=Table;v=v2;g=meta.k8s.io"
    for accept, kind, version in (
        (f"{unknown},{TABLE}", "Table", "meta.k8s.io/v1"),
        (f"{unknown},application/json", "ConfigMapList", "v1"),
        (f"application/json,{TABLE}", "ConfigMapList", "v1"),
    ):
        table = await ask(server, configmaps(namespace), accept)
        assert (table["kind"], table["apiVersion"]) == (kind, version), accept


async def test_the_first_table_of_a_watch_has_the_columns(server: Server, namespace: str) -> None:
    for name in "ab":
        await server.api.create(configmaps(namespace), configmap(name))
    # A real namespace gets one of its own.
    asked: dict[str, Parameter] = {
        "fieldSelector": "metadata.name!=kube-root-ca.crt",
        "timeoutSeconds": 1,
        "watch": "1",
    }

    async def watched() -> list[Object]:
        """A busy server may end before it has sent both."""
        answer = await server.api.exchange("GET", configmaps(namespace), parameters=asked, headers={"Accept": ACCEPT})
        events = [json.loads(line) for line in answer.text.splitlines()]
        if len(events) < 2:
            raise NotYet(answer.text)
        return events

    events = await wait_for(watched, "two events of one watch")
    assert [(event["type"], cells(event["object"])) for event in events] == [
        ("ADDED", [["a", 0, "AGE"]]),
        ("ADDED", [["b", 0, "AGE"]]),
    ]
    first, second = (event["object"] for event in events)
    assert shown(first) == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] is None
    assert all(event["object"]["metadata"]["resourceVersion"].isdecimal() for event in events)
