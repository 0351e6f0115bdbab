"""What the first tier leaves out, and what it does not."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

pytest_plugins = "pytester"

TESTS = """
import pytest

def test_pure(): ...

@pytest.mark.full("a matrix")
def test_matrix(): ...

MINORS = [pytest.param(m, marks=pytest.mark.minor(m), id=m) for m in ("1.37", "1.36", "1.35")]

@pytest.mark.parametrize("minor", MINORS)
def test_live(minor): ...

@pytest.mark.differs("1.35")
@pytest.mark.parametrize("minor", MINORS)
def test_differs(minor): ...
"""
FIRST = {"test_pure", "test_live[1.37]", "test_differs[1.37]", "test_differs[1.35]"}
OPTIONS = ("-p", "tests.tiers", "-p", "no:cacheprovider", "-p", "no:asyncio")
EVERYTHING = FIRST | {"test_matrix", "test_live[1.36]", "test_live[1.35]", "test_differs[1.36]"}


@pytest.fixture(autouse=True)
def _profile_of_this_run() -> Iterator[None]:
    """A run in this process loads a profile of Hypothesis for all of it."""
    profile = settings.get_current_profile_name()
    yield
    settings.load_profile(profile)


@pytest.mark.parametrize(
    ("arguments", "collected"),
    [((), FIRST), (("--full",), EVERYTHING), (("::",), EVERYTHING)],
    ids=["first", "full", "named"],
)
def test_the_requested_tier_is_collected(
    arguments: tuple[str, ...], collected: set[str], pytester: pytest.Pytester
) -> None:
    path = pytester.makepyfile(TESTS)
    named = (
        [f"{path}::{name.partition('[')[0]}" for name in sorted(EVERYTHING)] if arguments == ("::",) else [*arguments]
    )
    lines = pytester.runpytest_inprocess("--collect-only", "-q", *OPTIONS, *named).outlines
    assert {line.partition("::")[2] for line in lines if "::" in line} == collected


def test_a_long_id_is_refused_and_long_texts_are_cut(pytester: pytest.Pytester) -> None:
    path = pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("text", ["x" * 1000])
        def test_text(text): ...
        """
    )
    lines = pytester.runpytest_inprocess("--collect-only", "-q", *OPTIONS, path).outlines
    assert [len(line.partition("[")[2]) for line in lines if "::" in line] == [80]
    path.write_text(path.read_text().replace('"x" * 1000', 'pytest.param("", id="x" * 81)'))
    assert pytester.runpytest_subprocess("--collect-only", "-q", *OPTIONS, path).ret == pytest.ExitCode.USAGE_ERROR
