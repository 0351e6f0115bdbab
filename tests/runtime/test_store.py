from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from gangctl.api.objects import Key
from gangctl.api.store import Change, Entry, Indexer, Store


class Thing(NamedTuple):
    owner: str
    labels: tuple[str, ...] = ()


def owners(thing: Thing) -> list[str]:
    return [thing.owner]


def labels(thing: Thing) -> tuple[str, ...]:
    return thing.labels


INDEXERS: dict[str, Indexer[Thing]] = {"owner": owners, "label": labels}

keys = st.tuples(st.sampled_from(["", "n1", "n2"]), st.sampled_from("abcd"))
entries = st.builds(
    Entry,
    uid=st.sampled_from(["u1", "u2"]),
    resource_version=st.sampled_from("123"),
    value=st.builds(Thing, st.sampled_from("xy"), st.lists(st.sampled_from("lm"), max_size=2).map(tuple)),
)
states = st.dictionaries(keys, entries)


def filled(state: dict[Key, Entry[Thing]]) -> Store[Thing]:
    store = Store[Thing](INDEXERS)
    for key, entry in state.items():
        store.put(key, entry)
    return store


def contents(store: Store[Thing]) -> dict[Key, Entry[Thing] | None]:
    return {key: store.entry(key) for key in store.keys()}  # noqa: SIM118 -- a store is not a dictionary


def check_indexes(store: Store[Thing]) -> None:
    """Every index equals a scan of the store."""
    for index, indexer in INDEXERS.items():
        by_scan: dict[object, set[Key]] = {}
        for key in store.keys():  # noqa: SIM118
            entry = store.entry(key)
            assert entry is not None
            for value in indexer(entry.value):
                by_scan.setdefault(value, set()).add(key)
        assert {value: set(bucket) for value, bucket in store._indexes[index].items()} == by_scan


@settings(deadline=None)
@given(states, states)
def test_a_store_equals_the_list_after_a_resync(
    before: dict[Key, Entry[Thing]], listed: dict[Key, Entry[Thing]]
) -> None:
    store = filled(before)
    changes: list[tuple[Key, Change[Thing]]] = []
    for key, entry in listed.items():
        changes += [(key, change) for change in store.put(key, entry)]
    gone = store.retain(set(listed))
    assert contents(store) == listed
    check_indexes(store)
    assert [change.new for change in gone] == [None] * len(before.keys() - listed.keys())
    assert sorted(change.old for change in gone if change.old) == sorted(
        before[k].value for k in before.keys() - listed.keys()
    )
    # The reported changes lead from the old state to the new one, object by object, without gaps.
    view: dict[Key, Thing | None] = {key: entry.value for key, entry in before.items()}
    for key, change in changes:
        assert view.get(key) == change.old
        assert change.old != change.new or change.old is None
        view[key] = change.new
    for key, entry in listed.items():
        assert view[key] == entry.value


@settings(deadline=None)
@given(states, states)
def test_the_same_list_twice_changes_nothing(before: dict[Key, Entry[Thing]], listed: dict[Key, Entry[Thing]]) -> None:
    store = filled(before)
    for key, entry in listed.items():
        store.put(key, entry)
    store.retain(set(listed))
    assert [change for key, entry in listed.items() for change in store.put(key, entry)] == []
    assert store.retain(set(listed)) == []


@settings(deadline=None)
@given(st.lists(st.tuples(keys, st.none() | entries)))
def test_indexes_follow_every_change(steps: list[tuple[Key, Entry[Thing] | None]]) -> None:
    store = Store[Thing](INDEXERS)
    model: dict[Key, Entry[Thing]] = {}
    for key, entry in steps:
        if entry is None:
            store.discard(key)
            model.pop(key, None)
        else:
            store.put(key, entry)
            model[key] = entry
    assert contents(store) == model
    assert len(store) == len(model)
    check_indexes(store)


def test_another_uid_is_another_object() -> None:
    store = Store[str]()
    store.put(("n", "a"), Entry("u1", "1", "old"))
    assert store.put(("n", "a"), Entry("u2", "2", "new")) == [Change("old", None), Change(None, "new")]


def test_a_change_outside_the_projection_updates_only_the_version() -> None:
    store = Store[str]()
    store.put(("n", "a"), Entry("u1", "1", "same"))
    assert store.put(("n", "a"), Entry("u1", "2", "same")) == []
    entry = store.entry(("n", "a"))
    assert entry is not None
    assert entry.resource_version == "2"


def test_entries_are_read_by_key_and_index() -> None:
    store = filled({("n1", "a"): Entry("1", "1", Thing("x", ("l",))), ("n2", "b"): Entry("2", "1", Thing("x"))})
    assert store.get("n1", "a") == Thing("x", ("l",))
    assert store.get("n1", "b") is None
    assert ("n2", "b") in store
    assert list(store.values()) == [Thing("x", ("l",)), Thing("x")]
    assert store.by_index("owner", "x") == [Thing("x", ("l",)), Thing("x")]
    assert store.keys_by_index("label", "l") == [("n1", "a")]
    assert store.by_index("owner", "unknown") == []
    assert store.entry(("n9", "z")) is None
    assert store.discard(("n9", "z")) == []


@given(states, states)
def test_the_list_of_one_namespace_leaves_the_others(
    before: dict[Key, Entry[Thing]], listed: dict[Key, Entry[Thing]]
) -> None:
    store = filled(before)
    namespace = min(before, default=("none", ""))[0]
    store.retain(set(listed), namespace)
    assert contents(store) == {key: entry for key, entry in before.items() if key in listed or key[0] != namespace}
    check_indexes(store)
