"""Rules whose hours pass in minutes are the same rules: only time spans differ, and all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.monitoring.rulefiles import alerts, groups, paths, rules
from tests.monitoring.scaled import PATIENCE, scaled_expression, scaled_groups, scaled_rule, seconds, span, write_scaled
from tests.rows import each


@each(
    ("expression", "expected"),
    [
        ("rate(a_total[5m])", "rate(a_total[5s])"),
        ("a > a offset 1d", "a > a offset 1440s"),
        ("max_over_time(a[1h30m:1m])", "max_over_time(a[90s:1s])"),
        ("rate(a_total[10s])", "rate(a_total[167ms])"),
        # A name, a label's value, a comment and plain numbers are no time spans.
        ("a:b_seconds:p95_1h > 0.25", "a:b_seconds:p95_1h > 0.25"),
        ('a{reason="5m", le="1h"} > 2', 'a{reason="5m", le="1h"} > 2'),
        (r'a{reason="\"5m"} > 2', r'a{reason="\"5m"} > 2'),
        ("a > 2 # within 5m", "a > 2 # within 5m"),
        ("a > 1e3", "a > 1e3"),
    ],
)
def test_time_spans_are_divided_and_nothing_else(expression: str, expected: str) -> None:
    assert scaled_expression(expression, 60) == expected


@given(st.integers(min_value=1, max_value=10**12))
def test_a_scaled_time_span_names_the_original(milliseconds: int) -> None:
    assert round(seconds(span(milliseconds / 1000)) * 1000) == milliseconds


def test_no_time_span_becomes_zero() -> None:
    assert span(0.0001) == "1ms"
    assert span(0) == "0s"


@each("text", ["", "5", "m", "5x", "1.5h", "5m "])
def test_an_invalid_time_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no time span"):
        seconds(text)


def test_a_rule_keeps_its_name_labels_and_texts() -> None:
    rule = {
        "alert": "A",
        "expr": "a offset 1h > 3600",
        "for": "5m",
        "labels": {"severity": "info"},
        "annotations": {"s": "5m"},
    }
    assert scaled_rule(rule, 60) == {**rule, "expr": "a offset 60s > 3600", "for": "5s"}


def test_thresholds_that_are_time_spans_are_divided() -> None:
    rule = {"alert": "GangPolicyScanStale", "expr": "time() - a > 3600"}
    assert scaled_rule(rule, 60)["expr"] == "time() - a > 60"
    with pytest.raises(ValueError, match="GangPolicyScanStale has no threshold 3600"):
        scaled_rule({**rule, "expr": "time() - a > 1800"}, 60)


def test_every_threshold_in_seconds_is_divided_or_a_latency_of_gangctl() -> None:
    """Expressions about time have such thresholds, and no others do."""
    about_time = {
        rule.name for rule in alerts() if re.search(r"time\(\)|_seconds:p\d+_|histogram_quantile", rule.expression)
    }
    assert about_time == PATIENCE.keys() | {"GangctlWebhookSlow", "GangctlReadinessLagging"}


def test_a_rule_can_have_a_separate_factor(tmp_path: Path) -> None:
    written = write_scaled(tmp_path, 60, factors={"GangctlInformerStale": 3}, interval="2s")
    found = {
        rule.get("alert") or rule["record"]: (rule, group["interval"])
        for path in written
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    }
    assert set(found) == {rule.name for rule in rules()}
    rule, interval = found["GangctlInformerStale"]
    assert (rule["expr"].rpartition("> ")[2], rule["for"], interval) == ("100", "40s", "2s")
    assert found["GangctlDown"][0]["for"] == "5s"


def test_unknown_names_of_rules_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no rules GangctlGone"):
        write_scaled(tmp_path, 60, factors={"GangctlGone": 1})


@each("path", paths(), ids=lambda path: path.stem)
def test_a_factor_of_one_changes_no_time(path: Path) -> None:
    for before, after in zip(groups(path), scaled_groups(path, 1), strict=True):
        for old, new in zip(before["rules"], after["rules"], strict=True):
            assert seconds(new.get("for", "0s")) == seconds(old.get("for", "0s"))
    with pytest.raises(ValueError, match=r"factor 0\.5"):
        scaled_groups(path, 0.5)
