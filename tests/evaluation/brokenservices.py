"""Services of workers that are broken, each in one way; the real one otherwise."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

from gangctl.evaluation.worker import Service


def dies_at_once() -> Service:
    raise ModuleNotFoundError("No module named 'orjson'")


def says_nothing() -> Service:
    while True:
        time.sleep(60)


class Answering(Service):
    """Loads policies as the real one, and reads reviews."""

    def __call__(self, request: Any) -> Iterator[Any]:
        return super().__call__(request) if request[0] == "load" else self.evaluate()

    def evaluate(self) -> Iterator[Any]:
        yield "read"


class Nonsense(Answering):
    """Answers something else."""

    def evaluate(self) -> Iterator[Any]:
        yield {"allowed": True}


class NonsenseOutcome(Answering):
    """Answers something else for a policy."""

    def evaluate(self) -> Iterator[Any]:
        yield from super().evaluate()
        yield ["passes", 0.0]


class Silent(Answering):
    """Reads reviews, and answers nothing."""

    def evaluate(self) -> Iterator[Any]:
        yield from ()
        signal.pause()


class Killed(Answering):
    """Is killed from outside while it evaluates."""

    def evaluate(self) -> Iterator[Any]:
        yield from super().evaluate()
        os.kill(os.getpid(), signal.SIGKILL)
