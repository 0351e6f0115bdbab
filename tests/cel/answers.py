"""Expressions with the recorded answers of the API server: those that are true, and those that fail and how."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gangctl.cel.check import check
from gangctl.cel.environments import admission
from gangctl.cel.evaluation.conversions import plain
from gangctl.cel.faults import EvalError
from gangctl.cel.meter import StepMeter
from gangctl.cel.program import compile_expression

PLACE: Final = Path(__file__).parent / "answers.json"


@dataclass(frozen=True)
class Answers:
    """``fails`` are all bool too: what fails is the only element of a list whose size they take."""

    object: dict[str, Any]
    holds: list[str]
    fails: dict[str, str]


def recorded() -> Answers:
    return Answers(**json.loads(PLACE.read_text()))


def unlimited() -> StepMeter:
    return StepMeter(10**9, time.monotonic() + 60, time.monotonic)


def said(text: str, obj: dict[str, Any]) -> object:
    """The value, or the kind of the error."""
    program = compile_expression(check(text, admission()))
    try:
        return plain(program.evaluate({"object": obj}, {}, unlimited()))
    except EvalError as error:
        return str(error.kind)
