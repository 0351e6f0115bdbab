"""Hostile texts for names, annotations and messages."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.jobsets import MODE, OPTIONS, REF

ANSI = "\x1b[2J\x1b]0;owned\x07"
FORGED_LOG = 'x\n{"level":"info","event":"all is well"}'
RIGHT_TO_LEFT = "\u202egnag"
MARKUP = "[red]%s{0}${jndi:x}`id`<script>"
LONG = "n" * 9_000

texts = st.one_of(
    st.sampled_from(
        [ANSI, FORGED_LOG, RIGHT_TO_LEFT, MARKUP, LONG, "", "\0", "\ufeffGang", "\ud800", "Gang\n", "]", "a].b["]
    ),
    st.text(max_size=20),
    st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Cn"]), max_size=5),
)
words = st.one_of(texts, st.sampled_from(["Gang", "Off", "ReplicatedGang", "InOrder", "single", "split"]))
keys = st.one_of(st.sampled_from([MODE, OPTIONS, REF, "name", "gangMode", "topologyKey", "composite"]), texts)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([2**31, 2**63, -(2**63), 10**400, 1e308, float("nan"), float("inf"), -0.0, 0.1]),
    words,
)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)


def is_printed_safely(text: str, limit: int) -> bool:
    """Whether a terminal, a log and the wire can carry it, and it has a bound."""
    return len(text) <= limit and text.isprintable() and text.encode() != b""
