"""
Two tiers: what every submission runs, and what `make test-full` adds.

The first tier is all pure and sandbox tests, one real proof of every promise on the newest Kubernetes minor, and on
older minors what differs there. `--full` runs everything on every minor.

    @pytest.mark.full("why")         full tier only
    @pytest.mark.minor("1.36")       what this test, or this parameter of it, runs on; the first tier leaves older
                                     minors out
    @pytest.mark.differs("1.35")     in the first tier on these minors, too: what is tested differs there

A test that is named on the command line (`pytest tests/live/test_x.py::test_y`) runs in either tier.

Hypothesis takes the same examples at every run of the first tier, which must not fail for a reason that the change does
not have; the full tier looks for new ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings

from tests.controlplane.minors import NEWEST
from tests.rows import ID_LENGTH, short


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run both tiers: every test on every Kubernetes minor")


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("first", derandomize=True, deadline=None)
    settings.register_profile("full", deadline=None)
    settings.load_profile("full" if config.option.full else "first")


def pytest_make_parametrize_id(val: object) -> str | None:
    """The id of a long text: its beginning and its end."""
    return short(val) if isinstance(val, str) and len(val) > ID_LENGTH else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if long := [item for item in items if len(_id(item)) > ID_LENGTH]:
        names = "\n".join(f"  {short(item.nodeid)}" for item in long[:20])
        raise pytest.UsageError(f"{len(long)} ids have more than {ID_LENGTH} characters, name the parameters:\n{names}")
    for item in items:
        # For the report of a full run.
        item.user_properties.append(("tier", "first" if in_first_tier(item) else "full"))
    if config.option.full or any("::" in argument for argument in config.args):
        return
    left_out = [item for item in items if not in_first_tier(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if in_first_tier(item)]


def _id(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return "" if callspec is None else str(callspec.id)


def in_first_tier(item: pytest.Item) -> bool:
    """Whether the first tier runs a test."""
    if item.get_closest_marker("full"):
        return False
    minors = [str(minor) for mark in item.iter_markers("minor") for minor in mark.args]
    differs = [str(minor) for mark in item.iter_markers("differs") for minor in mark.args]
    return _runs(minors, differs)


def _runs(minors: Sequence[str], differs: Sequence[str]) -> bool:
    return not minors or bool({NEWEST, *differs} & set(minors))
