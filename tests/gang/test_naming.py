"""Names are DNS labels, whatever goes into them, and differ where they must."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.names import is_dns_label
from gangctl.gang.naming import (
    BASE_LENGTH,
    MAX_LENGTH,
    base_name,
    family,
    group_name,
    template_names,
    workload_name,
)
from tests.jobsets import FIXTURE_UID
from tests.rows import each
from tests.strategies import PROPERTY

anything = st.one_of(st.text(max_size=80), st.sampled_from(["", "-", "-.-", "İ" * 60, "\ud800", "a." * 40]))


@each("name", ["a", "0", "a-b", "a--b", "x" * 63, "rj1"])
def test_dns_labels(name: str) -> None:
    assert is_dns_label(name)


@each("name", ["", "-", "-a", "a-", "A", "a.b", "x" * 64, "a\n", "ä", "a b", "٣"])
def test_not_dns_labels(name: str) -> None:
    assert not is_dns_label(name)


NUMBERS = st.integers(0, 2**31 - 1)
INDEXES = st.integers(0, 49_999)
"""Of a JobSet with gangs, which has at most 50,000 Jobs."""


@given(anything, anything)
@PROPERTY
def test_any_parts_make_a_base_that_leaves_room(jobset: str, replicated_job: str) -> None:
    for base in (base_name(jobset), base_name(jobset, replicated_job)):
        assert is_dns_label(base)
        assert len(base) <= BASE_LENGTH
        assert is_dns_label(group_name(base, FIXTURE_UID, 2**31 - 1))
        assert is_dns_label(group_name(base, FIXTURE_UID, 2**31 - 1, 49_999))


@given(st.lists(anything, unique=True, max_size=10), anything)
@PROPERTY
def test_the_bases_of_a_jobset_differ(replicated_jobs: list[str], jobset: str) -> None:
    bases = {base_name(jobset), *(base_name(jobset, each) for each in replicated_jobs)}
    assert len(bases) == len(replicated_jobs) + 1


@given(anything)
@PROPERTY
def test_any_name_of_a_jobset_makes_a_workload_s(jobset: str) -> None:
    name = workload_name(jobset, FIXTURE_UID)
    assert is_dns_label(name)
    assert name.endswith("-0f5a6f3e-7c21")


@given(st.tuples(NUMBERS, INDEXES, NUMBERS), st.tuples(NUMBERS, INDEXES, NUMBERS))
@PROPERTY
def test_groups_differ_by_job_and_by_attempt(one: tuple[int, int, int], two: tuple[int, int, int]) -> None:
    names = [group_name("js-w", FIXTURE_UID, *each) for each in (one, two)]
    assert (names[0] == names[1]) == (one == two)
    assert (family(names[0]) == family(names[1])) == (one[1] == two[1])
    assert group_name("js-w", FIXTURE_UID, one[0]) not in names


@each(
    ("named", "same"),
    [
        ("js-w-0f5a6f3e-7c21-0", "js-w-0f5a6f3e-7c21-17"),
        ("js-w-0f5a6f3e-7c21-3-0", "js-w-0f5a6f3e-7c21-3-1.4"),
        ("js-0f5a6f3e-7c21/w/0", "js-0f5a6f3e-7c21/w/1"),
        ("js-0f5a6f3e-7c21/w/3-0", "js-0f5a6f3e-7c21/w/3-1-4"),
    ],
)
def test_a_group_is_of_one_family_in_all_attempts(named: str, same: str) -> None:
    assert family(named) == family(same)
    assert family(named) not in {"", family("js-w-0f5a6f3e-7c21-4-0"), family("js-0f5a6f3e-7c21/w/4-0")}


def test_names_can_be_read() -> None:
    assert workload_name("js", FIXTURE_UID) == "js-0f5a6f3e-7c21"
    assert base_name("js", "w") == "js-w"
    assert base_name("js") == "js"
    assert group_name("js-w", FIXTURE_UID, 2) == "js-w-0f5a6f3e-7c21-2"
    assert group_name("js-w", FIXTURE_UID, 2, 7) == "js-w-0f5a6f3e-7c21-7-2"
    assert group_name("js-w", FIXTURE_UID, 2, 7, 1) == "js-w-0f5a6f3e-7c21-7-2.1"
    assert base_name("distributed-training", "with-many-workers") == "distributed-training-wi-39b04d9b"
    assert len(workload_name("l" * 63, FIXTURE_UID)) == MAX_LENGTH


def test_scopes_that_read_alike_differ() -> None:
    long = "x" * 40
    assert len({base_name(long), base_name(long, ""), base_name(long, "a"), base_name(long, "b")}) == 4
    assert base_name("a", "b-" + long) != base_name("a-b", long)


def test_a_fallback_template_name_gives_way_to_a_real_one() -> None:
    fallback = template_names(("", "rj0"))[0]
    assert fallback != "rj0"
    again = template_names(("", "rj0", fallback))
    assert again[1:] == ("rj0", fallback)
    assert len(set(again)) == 3


@given(st.lists(anything, unique=True, max_size=10).map(tuple))
@PROPERTY
def test_template_names_are_dns_labels_and_unique(replicated_jobs: tuple[str, ...]) -> None:
    names = template_names(replicated_jobs)
    assert all(is_dns_label(name) for name in names)
    assert len(set(names)) == len(replicated_jobs)
    assert all(own == name for own, name in zip(replicated_jobs, names, strict=True) if is_dns_label(own))
