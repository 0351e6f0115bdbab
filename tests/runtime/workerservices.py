"""What the workers of these tests run: harmless and hostile answers."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any


class Answers:
    """Does what a request asks for."""

    def __call__(self, request: Any) -> Iterator[Any]:
        verb, *rest = request
        deeds: dict[str, Callable[..., Iterator[Any]]] = {
            "echo": self.echo,
            "count": self.count,
            "hang": self.hang,
            "memory": self.memory,
            "raise": self.fail,
            "exit": self.leave,
            "say": self.say,
            "see": self.see,
            "null": self.null,
            "garbage": self.garbage,
        }
        yield from deeds[verb](*rest)

    def echo(self, value: Any) -> Iterator[Any]:
        yield value

    def count(self, upto: int) -> Iterator[Any]:
        yield from range(upto)

    def hang(self) -> Iterator[Any]:
        yield "hanging"
        while True:
            pass

    def memory(self, size: int) -> Iterator[Any]:
        yield "filling"
        yield len(bytearray(size))

    def fail(self, words: str) -> Iterator[Any]:
        yield "failing"
        raise RuntimeError(words)

    def leave(self, code: int) -> Iterator[Any]:
        yield "leaving"
        if code < 0:
            os.kill(os.getpid(), -code)
        os._exit(code)

    def say(self, words: str) -> Iterator[Any]:
        sys.stderr.write(words)
        sys.stderr.flush()
        yield "said"

    def see(self) -> Iterator[Any]:
        # A process cannot see itself with signals ignored in any other way that is as simple.
        ignored = [signal.getsignal(each) is signal.SIG_IGN for each in (signal.SIGINT, signal.SIGTERM)]
        yield {"environment": dict(os.environ), "path": list(sys.path), "ignored": ignored, "group": os.getpgid(0)}

    def null(self) -> Iterator[Any]:
        yield None

    def garbage(self) -> Iterator[Any]:
        for descriptor in range(3, 1024):
            try:
                os.write(descriptor, b"x" * 100)
            except OSError:
                continue
        time.sleep(60)
        yield None


def dies_at_once() -> Answers:
    """Cannot be started."""
    os._exit(7)


def writes_and_dies() -> Answers:
    """Cannot be started, and writes why."""
    raise LookupError("a secret")


def greets_with_nonsense() -> Answers:
    """Sends what is no greeting, and waits."""
    next(Answers().garbage())
    return Answers()


def never_starts() -> Answers:
    """Sends no hello."""
    while True:
        time.sleep(60)
