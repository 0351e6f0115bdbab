"""
Tests of tables: one test runs every row and names the rows that fail.

    @each(("text", "value"), [("1Gi", 2**30), ("1G", 10**9)])
    def test_a_quantity_is_read(text: str, value: int) -> None: ...

Like `pytest.mark.parametrize`, but the rows are one test: pytest collects, sets up and reports it once. Take it where
rows differ in data only. All rows share the test's fixtures, so a row must not change what the next one sees; a row
that needs a fixture of its own, a mark or a skip is a case for `parametrize`.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

ID_LENGTH = 80
"""Characters of a row's or a test's id; values can be megabytes."""

Test = Callable[..., Any]


class RowsFailed(ExceptionGroup[Exception]):
    """The failures of a test's rows; each one's note is the name of its row."""


def each(
    names: str | Sequence[str], rows: Iterable[Any], ids: Iterable[str] | Callable[[Any], object] | None = None
) -> Callable[[Test], Test]:
    """Run the test for every row; raise RowsFailed with one exception for each row that fails.

    `names` are the arguments that a row gives, as in `parametrize`; with one name a row is its value. `ids` are the
    rows' names, or a function of a value; otherwise a row is named by its values.
    """
    keys = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)
    table = list(_named(keys, rows, ids))
    if not table:
        raise ValueError(f"no rows for {', '.join(keys)}: the test would check nothing")

    def decorate(test: Test) -> Test:
        wrapper = _async_wrapper(test, table) if inspect.iscoroutinefunction(test) else _wrapper(test, table)
        signature = inspect.signature(test)
        if unknown := [key for key in keys if key not in signature.parameters]:
            raise ValueError(f"{test.__name__} takes no {', '.join(unknown)}")
        left = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        # What pytest reads to find the fixtures: the rows' arguments are none.
        wrapper.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return wrapper

    return decorate


def _wrapper(test: Test, table: Sequence[tuple[str, dict[str, Any]]]) -> Test:
    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        failures: list[Exception] = []
        for name, row in table:
            try:
                test(*args, **fixtures, **row)
            except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001 - a row may fail in any way
                failures.append(_failure(error, name))
        _report(test, failures, len(table))

    return run


def _async_wrapper(test: Test, table: Sequence[tuple[str, dict[str, Any]]]) -> Test:
    @functools.wraps(test)
    async def run(*args: Any, **fixtures: Any) -> None:
        failures: list[Exception] = []
        for name, row in table:
            try:
                await test(*args, **fixtures, **row)
            except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001 - a row may fail in any way
                failures.append(_failure(error, name))
        _report(test, failures, len(table))

    return run


def _failure(error: BaseException, name: str) -> Exception:
    if isinstance(error, pytest.skip.Exception):
        error = AssertionError(f"a row cannot be skipped: {error}")
    # pytest.fail raises what is no Exception, and only those can be grouped.
    failure = error if isinstance(error, Exception) else AssertionError(str(error))
    failure.add_note(f"row: {name}")
    return failure


def _report(test: Test, failures: list[Exception], count: int) -> None:
    if failures:
        raise RowsFailed(f"{len(failures)} of {count} rows of {test.__name__} failed", failures)


def _named(
    keys: Sequence[str], rows: Iterable[Any], ids: Iterable[str] | Callable[[Any], object] | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    given = None if ids is None or callable(ids) else list(ids)
    for number, row in enumerate(rows):
        values, name = row, None
        if isinstance(row, type(pytest.param())):
            if row.marks:
                raise ValueError(f"a row of {', '.join(keys)} has marks: use parametrize")
            values, name = (row.values if len(keys) > 1 else row.values[0]), row.id
        parts = tuple(values) if len(keys) > 1 else (values,)
        if len(parts) != len(keys):
            raise ValueError(f"row {number} has {len(parts)} values for {', '.join(keys)}")
        if name is None and given is not None:
            name = given[number]
        if name is None:
            name = "-".join(str(ids(part)) if callable(ids) else short(repr(part)) for part in parts)
        yield short(str(name)), dict(zip(keys, parts, strict=True))


def short(text: str) -> str:
    """The text, or its beginning and end where it has more than ID_LENGTH characters."""
    if len(text) <= ID_LENGTH:
        return text
    half = (ID_LENGTH - 3) // 2
    return f"{text[:half]}...{text[-half:]}"
