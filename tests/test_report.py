"""The report of a full run counts every test once, and names what was skipped and what was slow."""

from pathlib import Path

from tests.report import read, render

JUNIT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.gang.test_plan" name="test_a[x|y]" time="0.5">
<properties><property name="tier" value="first"/></properties></testcase>
<testcase classname="tests.live.test_b" name="test_b" time="90">
<properties><property name="tier" value="full"/></properties></testcase>
<testcase classname="tests.live.test_b" name="test_c" time="0">
<properties><property name="tier" value="first"/></properties><skipped message="no Go"/></testcase>
<testcase classname="tests.live.test_b" name="test_d" time="30">
<properties><property name="tier" value="full"/></properties><failure message="broken"/></testcase>
</testsuite></testsuites>"""


def test_every_test_is_counted_in_its_tier_and_area(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(JUNIT)
    page = render(read(tmp_path / "junit.xml"), facts=[("commit", "`abc`")], mutation="| gang | 93% |")
    assert "| first | 1 | 0 | 1 | 0.0 |" in page
    assert "| full | 1 | 1 | 0 | 2.0 |" in page
    assert "| no Go | 1 |" in page
    assert "| live | 3 | 2.0 |" in page
    assert "| `gang.test_plan::test_a[x\\|y]` | 0 |" in page
    assert page.index("live.test_b::test_b") < page.index("live.test_b::test_d")
    assert page.endswith("| gang | 93% |\n")
