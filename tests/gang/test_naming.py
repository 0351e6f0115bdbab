"""Names are DNS labels, whatever goes into them, and differ where they must."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangctl.gang.naming import (
    MAX_LENGTH,
    composite_group_name,
    is_dns_label,
    job_group_name,
    job_group_names,
    jobset_group_name,
    replicated_job_group_name,
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


@given(anything, anything, anything, st.integers(0, 2**31 - 1))
@PROPERTY
def test_any_parts_make_a_dns_label(jobset: str, uid: str, replicated_job: str, index: int) -> None:
    names = [
        workload_name(jobset, uid),
        jobset_group_name(jobset, uid),
        composite_group_name(jobset, uid),
        replicated_job_group_name(jobset, uid, replicated_job),
        job_group_name(jobset, uid, replicated_job, index),
    ]
    assert [name for name in names if not is_dns_label(name)] == []
    assert len(set(names)) == len(names)


@given(anything, anything, anything)
@PROPERTY
def test_the_names_of_all_replicas_are_those_of_each(jobset: str, uid: str, replicated_job: str) -> None:
    each = [job_group_name(jobset, uid, replicated_job, index) for index in range(12)]
    assert list(job_group_names(jobset, uid, replicated_job, 12)) == each


@each("length", [51, 52, 53, 63, 253])
def test_the_hash_is_never_cut(length: int) -> None:
    short, long = workload_name("js", FIXTURE_UID), workload_name("l" * length, FIXTURE_UID)
    assert long[-11:] == short[-11:] == "-c9a416f1e7"
    assert len(long) == min(length + 11, MAX_LENGTH)


def test_the_published_name_of_the_composite_root() -> None:
    assert composite_group_name("js", FIXTURE_UID) == "js-df35b568bf"


def test_scopes_that_read_alike_differ() -> None:
    assert replicated_job_group_name("js", "u", "b-0") != job_group_name("js", "u", "b", 0)
    assert replicated_job_group_name("js-b", "u", "0") != job_group_name("js", "u", "b", 0)
    assert job_group_name("js", "u", "b-1", 0) != job_group_name("js", "u", "b", 10)


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
