"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_ELSEWHERE: Final = {
    "cel": "Kubernetes has no cel.bind: put the value into a variable of the policy",
    "math": "Kubernetes has no math functions: compare with < and >, or use min() and max() of a list",
    "base64": "Kubernetes has no base64 functions in policies",
    "regex": "Kubernetes has find(), findAll() and matches() of strings",
    "jsonpatch": "jsonpatch.escapeKey is for mutating policies only",
    "self": "the object is 'object' in policies",
    "oldSelf": "the object before is 'oldObject' in policies",
    "existsOne": "the macro of one variable is exists_one",
    "includes": "write value in list",
    "length": "write size()",
    "len": "write size()",
    "toLowerCase": "write lowerAscii()",
    "toUpperCase": "write upperAscii()",
    "lower": "write lowerAscii()",
    "upper": "write upperAscii()",
    "any": "write exists(x, ...)",
    "params": "params exist where the policy has a paramKind",
}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence with the nearest known name, or nothing."""
    if word in _ELSEWHERE:
        return _ELSEWHERE[word]
    near = get_close_matches(word, sorted(known), n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else ""
