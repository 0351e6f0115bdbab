"""Lists: selectors, pages, and the version that a list is of."""

import pytest

from tests.conformance.answers import bad_request
from tests.conformance.grounds import Server
from tests.conformance.objects import NAMESPACES, job, jobs, lease, leases, names_of, secret, secrets
from tests.controlplane.api import Parameter, list_items, path_of
from tests.controlplane.wait import wait_for
from tests.rows import each

FOUR = {"a": {"app": "x", "tier": "1"}, "b": {"app": "y"}, "c": {"tier": "2"}, "d": {"app": "x", "tier": "2"}}


@pytest.fixture
async def versions(server: Server, namespace: str) -> dict[str, int]:
    """Four Leases, and the version after each."""
    made = {}
    for name, labels in FOUR.items():
        created = await server.api.create(leases(namespace), lease(name, labels=labels))
        made[name] = int(created["metadata"]["resourceVersion"])
    return made


@pytest.fixture
async def path(namespace: str, versions: dict[str, int]) -> str:
    """Where the four Leases are."""
    assert len(versions) == 4
    return leases(namespace)


async def test_a_list_is_sorted_and_may_be_empty(server: Server, namespace: str) -> None:
    # An empty list has items.
    answer = await server.api.get(leases(namespace))
    assert answer.pop("metadata")["resourceVersion"].isdecimal()
    assert answer == {"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "items": []}

    # A list in a namespace that is not there is empty.
    assert await server.api.list(leases("nowhere")) == []

    # Items are sorted by name.
    for name in ("c", "a", "b-1", "b"):
        await server.api.create(leases(namespace), lease(name))
    assert names_of(await server.api.list(leases(namespace))) == ["a", "b", "b-1", "c"]

    # Those of all namespaces by their keys in etcd, where "-" is before "/"; pages, too.
    longer = f"{namespace}-b"
    await server.api.create(NAMESPACES, {"metadata": {"name": longer}})
    for place in (namespace, longer):
        await server.api.create(leases(place), lease("d", labels={"mine": namespace}))
    everywhere, mine = path_of("coordination.k8s.io/v1", "leases"), f"mine={namespace}"
    listed = await server.api.list(everywhere, labelSelector=mine)
    assert [item["metadata"]["namespace"] for item in listed] == [longer, namespace]
    page = await server.api.get(everywhere, labelSelector=mine, limit=1)
    rest = await server.api.get(everywhere, labelSelector=mine, **{"continue": page["metadata"]["continue"]})
    pages = [item["metadata"]["namespace"] for part in (page, rest) for item in list_items(part)]
    assert pages == [longer, namespace]


async def test_items_do_not_repeat_their_kind(server: Server, path: str) -> None:
    for item in await server.api.list(path):
        assert not item.keys() & {"kind", "apiVersion"}


@each(
    ("selector", "names"),
    [
        ("app=x", "ad"),
        ("app==x", "ad"),
        ("app!=x", "bc"),
        ("app in (x,y)", "abd"),
        ("app notin (x)", "bc"),
        ("app", "abd"),
        ("!app", "c"),
        ("tier>1", "cd"),
        ("tier<2", "a"),
        ("app=x,tier=2", "d"),
        ("tier in (1), app", "a"),
        ("app=", ""),
        ("", "abcd"),
    ],
)
async def test_label_selectors_select(server: Server, path: str, selector: str, names: str) -> None:
    assert names_of(await server.api.list(path, labelSelector=selector)) == list(names)


@each(
    ("selector", "words"),
    [
        ("app x", "found 'x', expected: in, notin, =, ==, !=, gt, lt"),
        ("app in x", "found 'x' expected: '('"),
        ("app in (x", "found '', expected: ',' or ')'"),
        ("app in (x y)", "found 'y', expected: ',' or ')'"),
        ("app in (", "found '', expected: ',', ')' or identifier"),
        ("app in (x,", "found '', expected: ',', or identifier"),
        ("app in (x/y)", 'values[0][app]: Invalid value: "x/y": a valid label must be an empty string or consist of'),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("app=x!", "found '!', expected: ',' or 'end of string'"),
    ],
)
async def test_label_selectors_are_parsed(server: Server, namespace: str, selector: str, words: str) -> None:
    await bad_request(server.api.list(leases(namespace), labelSelector=selector), saying=words)


@each(
    ("selector", "names"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name==b", "b"),
        ("metadata.name!=a", "bcd"),
        ("metadata.name!=a,metadata.name!=b", "cd"),
        ("metadata.namespace=default", ""),
    ],
)
async def test_field_selectors_select(server: Server, path: str, selector: str, names: str) -> None:
    assert names_of(await server.api.list(path, fieldSelector=selector)) == list(names)


async def test_unsupported_field_selectors_are_refused(server: Server, namespace: str) -> None:
    # A field that is not selectable.
    await bad_request(
        server.api.list(leases(namespace), fieldSelector="spec.holder=x"),
        '"spec.holder" is not a known field selector: only "metadata.name", "metadata.namespace"',
    )

    # Field selectors know no sets.
    await bad_request(
        server.api.list(leases(namespace), fieldSelector="metadata.name in (a)"),
        "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'",
    )

    # Kinds have selectable fields of their own.
    await server.api.create(secrets(namespace), secret("a"))
    await server.api.create(secrets(namespace), {**secret("b"), "type": "example.com/other"})
    assert names_of(await server.api.list(secrets(namespace), fieldSelector="type=Opaque")) == ["a"]
    await bad_request(server.api.list(secrets(namespace), fieldSelector="data=x"), "field label not supported: data")


async def test_jobs_are_selected_by_their_successes(server: Server, namespace: str) -> None:
    for name in ("a", "b"):
        await server.api.create(jobs(namespace), job(name))
    await server.api.patch(f"{jobs(namespace, 'b')}/status", {"status": {"succeeded": 1}})
    for successful, name in (("0", "a"), ("1", "b")):
        listed = await server.api.list(jobs(namespace), fieldSelector=f"status.successful={successful}")
        assert names_of(listed) == [name]
    await bad_request(
        server.api.list(jobs(namespace), fieldSelector="status.active=1"),
        'field label "status.active" not supported for Job',
    )


async def test_a_list_is_read_in_pages(server: Server, path: str) -> None:
    # A page has the number of remaining items.
    page = await server.api.get(path, limit=1)
    assert names_of(list_items(page)) == ["a"]
    assert page["metadata"]["remainingItemCount"] == 3
    assert page["metadata"]["continue"]

    # A page that holds everything is the list.
    page = await server.api.get(path, limit=4)
    assert len(page["items"]) == 4
    assert not page["metadata"].keys() & {"continue", "remainingItemCount"}

    # What is left of a selection is not counted.
    page = await server.api.get(path, limit=1, labelSelector="app=x")
    assert names_of(list_items(page)) == ["a"]
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]

    # Pages go on until nothing is left.
    names, token = [], ""
    while True:
        asked: dict[str, Parameter] = {"continue": token} if token else {}
        page = await server.api.get(path, limit=3, **asked)
        names.append("".join(names_of(list_items(page))))
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert names == ["abc", "d"]
    assert "remainingItemCount" not in page["metadata"]

    # Pages are of one version.
    first = await server.api.get(path, limit=2)
    await server.api.create(path, lease("e"))
    rest = await server.api.get(path, **{"continue": first["metadata"]["continue"]})
    assert names_of(list_items(rest)) == ["c", "d"]
    assert rest["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


async def test_options_of_a_list_are_checked(server: Server, path: str) -> None:
    # A limit is a number.
    await bad_request(server.api.get(path, limit="x"), 'strconv.ParseInt: parsing "x": invalid syntax')

    # A continue token is the servers.
    await bad_request(
        server.api.get(path, limit=1, **{"continue": "garbage"}),
        saying="invalid continue token: continue key is not valid",
    )


async def test_version_0_returns_any_state_and_ignores_the_limit(server: Server, path: str) -> None:
    async def complete() -> bool:
        page = await server.api.get(path, resourceVersion="0", limit=1)
        assert "continue" not in page["metadata"]
        return names_of(list_items(page)) == list(FOUR)

    # A cached state may be behind, but not for long.
    assert await wait_for(complete)


@each("match", ["NotOlderThan", ""], ids=["asked", "by-default"])
async def test_a_list_is_not_older_than_the_requested_version(
    server: Server, path: str, versions: dict[str, int], match: str
) -> None:
    asked = {"resourceVersionMatch": match} if match else {}
    answer = await server.api.get(path, resourceVersion=versions["b"], **asked)
    assert set(names_of(list_items(answer))) >= {"a", "b"}
    assert int(answer["metadata"]["resourceVersion"]) >= versions["b"]
