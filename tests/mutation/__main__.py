"""``python -m tests.mutation``: a sample of mutants of some packages, and which of them the pure tests do not notice.

The tests are collected once. Each mutant is a fork of that process in which the code of one function is exchanged, and
that runs the tests that have called the function before, the quickest first. What is noticed by none of them, and what
runs when a module is imported, is tried in a process that imports the changed module. No file is ever changed.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import gc
import importlib
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import pytest

from tests.mutation.mutants import Mutant, mutants

ROOT: Final = Path(__file__).parent.parent.parent
PACKAGES: Final = ("gang", "readiness", "fit")
HEAVY: Final = ("aiohttp", "cryptography.x509", "pydantic", "kubernetes_asyncio.client", "structlog", "yaml")
LEAST_SECONDS, LONGER, MEMORY_BYTES = 10, 5, 6 << 30
"""Of CPU, for one test with a mutant in it: so many, and so many times what it takes without."""
NOTICED: Final = 1
EXAMPLES: Final = 20
PROPERTY: Final = "_hypothesis_internal_use_settings"


def run(work: Callable[[], int], *, quiet: bool = True) -> int:
    """Run a function in a fork, with a limit of memory; 0 if it returns 0."""
    child = os.fork()
    if child == 0:
        status = NOTICED
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2) if quiet else (0, 1):
                os.dup2(nowhere, stream)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            status = work()
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


@dataclass
class Plan:
    """Of one package: what is tried, and what is known after the tests were collected and run once."""

    package: str
    tried: list[Mutant]
    answer: Path
    """Where the process that has collected the tests writes the next three."""
    seconds: dict[str, float] = field(default_factory=dict)
    called: dict[str, list[str]] = field(default_factory=dict)
    """Tests by the function that they call."""
    noticed: list[int] = field(default_factory=list)

    def tests(self, mutant: Mutant) -> list[str]:
        """The names of those that could notice it, the quickest first."""
        names = self.called.get(key(mutant.path, mutant.function[1]), []) if mutant.function else list(self.seconds)
        return sorted((name for name in names if name in self.seconds), key=self.seconds.__getitem__)

    def write(self) -> None:
        """For the process that started this one."""
        self.answer.write_text(json.dumps([self.seconds, self.called, self.noticed]))

    def read(self) -> None:
        """What the other one has written."""
        self.seconds, self.called, self.noticed = json.loads(self.answer.read_text())


def key(path: Path | str, line: int) -> str:
    """Of a function."""
    return f"{Path(path).resolve()}:{line}"


class Plugin:
    """What every process of pytest has here: properties with fewer examples, always the same, that are not shrunk."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """When they are collected: pytest wants to import hypothesis itself."""
        from hypothesis import Phase, settings  # noqa: PLC0415

        for item in items:
            test = getattr(item, "obj", None)
            function = getattr(test, "__func__", test)
            if (old := getattr(function, PROPERTY, None)) is not None:
                few = settings(
                    old,
                    max_examples=min(EXAMPLES, old.max_examples),
                    phases=(Phase.explicit, Phase.generate),
                    deadline=None,
                    derandomize=True,
                    database=None,
                )
                setattr(function, PROPERTY, few)


class Collected(Plugin):
    """The plugin of the process that has collected the tests."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running them once, run them once for each mutant."""
        run(functools.partial(self._profile, session))
        self.plan.read()
        functions = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
        for number, mutant in enumerate(self.plan.tried):
            if mutant.function and self.plan.tests(mutant):
                work = functools.partial(self._patched, session, mutant, functions)
                if run(work):
                    self.plan.noticed.append(number)
                show(f"{self.plan.package}: {number + 1} of {len(self.plan.tried)}, {len(self.plan.noticed)} noticed")
        self.plan.write()
        return True

    def _profile(self, session: pytest.Session) -> int:
        """Which test calls what, and how long it takes; those that fail are left out."""
        inside = str(ROOT / "gangctl" / self.plan.package)
        for item in session.items:
            began, failed = time.process_time(), session.testsfailed
            calls = cProfile.Profile(builtins=False)
            calls.enable()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            calls.disable()
            if session.testsfailed == failed:
                self.plan.seconds[item.nodeid] = time.process_time() - began
                for code in {entry.code for entry in calls.getstats()}:
                    if isinstance(code, CodeType) and code.co_filename.startswith(inside):
                        names = self.plan.called.setdefault(key(code.co_filename, code.co_firstlineno), [])
                        names.append(item.nodeid)
        self.plan.write()
        return 0

    def _patched(self, session: pytest.Session, mutant: Mutant, functions: list[FunctionType]) -> int:
        wanted = mutant.function
        code = next(each for each in codes(compile(mutant.tree, str(mutant.path), "exec")) if is_of(each, wanted))
        for each in functions:
            if each.__code__.co_filename == str(mutant.path) and is_of(each.__code__, wanted):
                if len(each.__code__.co_freevars) != len(code.co_freevars):
                    return 0
                each.__code__ = code
        for each in gc.get_objects():
            if isinstance(each, functools._lru_cache_wrapper):
                each.cache_clear()
        return run_items(session, self.plan, mutant)


class Chosen(Plugin):
    """The plugin of a process that has imported a mutant: it runs the tests that could notice it."""

    def __init__(self, plan: Plan, mutant: Mutant) -> None:
        self.plan = plan
        self.mutant = mutant

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        os._exit(run_items(session, self.plan, self.mutant))


def run_items(session: pytest.Session, plan: Plan, mutant: Mutant) -> int:
    """Until one fails or takes too long, which ends the process; 0 if none does."""
    items = {item.nodeid: item for item in session.items}
    for item in (items[name] for name in plan.tests(mutant) if name in items):
        limit = time.process_time() + LEAST_SECONDS + LONGER * plan.seconds[item.nodeid]
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), resource.RLIM_INFINITY))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        if session.testsfailed:
            return NOTICED
    return 0


def codes(code: CodeType) -> Iterator[CodeType]:
    """Of everything in a module."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from codes(each)


def is_of(code: CodeType, function: tuple[str, int] | None) -> bool:
    return (code.co_name, code.co_firstlineno) == function


class Loader(SourceFileLoader):
    """Of the changed module."""

    def __init__(self, fullname: str, mutant: Mutant) -> None:
        super().__init__(fullname, str(mutant.path))
        self.mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """Compiled anew, and kept nowhere."""
        del fullname
        return compile(self.mutant.tree, str(self.mutant.path), "exec")


class Finder(MetaPathFinder):
    """Imports the changed module in place of the file."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        parts = mutant.path.relative_to(ROOT).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Of that module and no other."""
        del path, target
        if fullname != self.name:
            return None
        return spec_from_file_location(fullname, self.mutant.path, loader=Loader(fullname, self.mutant))


def pytest_of(package: str, plugin: object) -> int:
    """Run pytest over the tests of a package with a plugin."""
    arguments = ["-n0", "-q", "-s", "-p", "no:cacheprovider", "--rootdir", str(ROOT), str(ROOT / "tests" / package)]
    return int(pytest.main(arguments, plugins=[plugin]))


def imported(mutant: Mutant, plan: Plan) -> int:
    """Import the mutant and run what could notice it; what cannot be imported is noticed."""
    sys.meta_path.insert(0, Finder(mutant))
    pytest_of(plan.package, Chosen(plan, mutant))
    return NOTICED


def survivors(plan: Plan) -> list[Mutant]:
    """What no test notices."""
    run(lambda: pytest_of(plan.package, Collected(plan)), quiet=False)
    plan.read()
    left = [mutant for number, mutant in enumerate(plan.tried) if number not in plan.noticed]
    found = []
    for number, mutant in enumerate(left, 1):
        if not plan.tests(mutant) or run(functools.partial(imported, mutant, plan)) == 0:
            found.append(mutant)
        show(f"{plan.package}: imported {number} of {len(left)}, {len(found)} survive")
    return found


def show(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main() -> int:
    """Write the score and the survivors of each package; 0 if there are none."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of gangctl (default: {' '.join(PACKAGES)})")
    parser.add_argument("--count", type=int, default=200, help="mutants of each package (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--only", default="", metavar="FILE[:LINE]", help="mutants of this place, below the package")
    asked = parser.parse_args()
    for name in HEAVY:
        importlib.import_module(name)
    every = []
    for package in asked.packages or PACKAGES:
        directory = ROOT / "gangctl" / package
        there = [each for path in sorted(directory.rglob("*.py")) for each in mutants(path)]
        there = [each for each in there if f"{each.path.relative_to(directory)}:{each.line}:".startswith(asked.only)]
        tried = random.Random(asked.seed).sample(there, min(asked.count, len(there)))
        with tempfile.TemporaryDirectory() as scratch:
            left = survivors(Plan(package, tried, Path(scratch) / "answer.json"))
        every += left
        score = 100 * (len(tried) - len(left)) / max(1, len(tried))
        print(f"{package}: {len(tried) - len(left)} of {len(tried)} mutants noticed ({score:.1f}%), of {len(there)}")
        for each in sorted(left, key=lambda mutant: (mutant.path, mutant.line)):
            print(f"  {each.path.relative_to(ROOT)}:{each.line}: {each.change}", flush=True)
    return 1 if every else 0


if __name__ == "__main__":
    sys.exit(main())
