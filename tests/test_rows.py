"""Tests of tables fail for every wrong row, and name it."""

import pytest

from tests.rows import ID_LENGTH, RowsFailed, each


@pytest.fixture
def one() -> int:
    return 1


@each("value", [1, 2, 3])
def test_rows_and_fixtures_are_arguments(value: int, one: int) -> None:
    assert value >= one


@each(("a", "b"), [(1, 2), pytest.param(2, 4, id="four")])
async def test_coroutines_are_awaited(a: int, b: int) -> None:
    assert b == 2 * a


def test_every_row_that_fails_is_named_and_the_others_are_run() -> None:
    ran = []

    @each("value", [1, 2, pytest.param(3, id="three"), 4])
    def check(value: int) -> None:
        ran.append(value)
        assert value % 2 == 0, "odd"
        if value == 4:
            pytest.fail("four")

    with pytest.raises(RowsFailed, match="3 of 4 rows of check failed") as raised:
        check()
    assert ran == [1, 2, 3, 4]
    assert [error.__notes__[0] for error in raised.value.exceptions] == ["row: 1", "row: three", "row: 4"]


async def test_a_coroutine_that_fails_for_a_row_fails() -> None:
    @each("value", [1, 2])
    async def check(value: int) -> None:
        assert value == 1

    with pytest.raises(RowsFailed, match="1 of 2 rows"):
        await check()


def test_tables_can_be_stacked() -> None:
    seen = []

    @each("a", [1, 2])
    @each("b", [3, 4])
    def check(a: int, b: int) -> None:
        seen.append((a, b))

    check()
    assert seen == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_a_row_that_skips_fails() -> None:
    @each("value", [1])
    def check(value: int) -> None:
        pytest.skip(str(value))

    with pytest.raises(RowsFailed):
        check()


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="no rows"):
        each("value", [])


def test_marks_and_wrong_names_are_refused() -> None:
    with pytest.raises(ValueError, match="marks"):
        each("value", [pytest.param(1, marks=pytest.mark.timeout(1))])
    with pytest.raises(ValueError, match="2 values for a"):
        each(("a", "b", "c"), [(1, 2)])
    with pytest.raises(ValueError, match="takes no b"):
        each("b", [1])(lambda a: a)


def test_long_names_are_truncated() -> None:
    @each("value", ["x" * 1000])
    def check(value: str) -> None:
        raise ValueError(len(value))

    with pytest.raises(RowsFailed) as raised:
        check()
    assert len(raised.value.exceptions[0].__notes__[0]) <= ID_LENGTH + len("row: ")
