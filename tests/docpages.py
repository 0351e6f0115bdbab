"""Pages of docs/ whose commands are run on the files that the page shows."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path
from typing import Final

from tests.cli.run import Answer, gangctl

ROOT: Final = Path(__file__).parents[1]


class Page:
    """One page, or several that share their files.

    ``commands`` are indented lines with the exit code that a comment beside them promises, 0 without one;
    ``samples`` are those that are followed by what they print.
    """

    def __init__(self, *names: str) -> None:
        """Read them."""
        self.text = "\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in names)
        self.prose = re.sub(r"^```.*?^```$", "", self.text, flags=re.MULTILINE | re.DOTALL)
        shown = re.findall(r"^`([\w.-]+)`:\n\n```yaml\n(.*?)^```$", self.text, flags=re.MULTILINE | re.DOTALL)
        self.files: dict[str, str] = dict(shown)
        samples = re.findall(r"^    (gangctl [^\n]*)\n\n```text\n(.*?)^```$", self.text, flags=re.MULTILINE | re.DOTALL)
        self.samples = [(_command(line), _code(line), shown) for line, shown in samples]
        self._shown = {command: shown for command, _, shown in self.samples}
        lines = re.findall(r"^ {4,}((?:gangctl|kubectl) .*)$", self.prose, flags=re.MULTILINE)
        self.commands = [(_command(line), _code(line)) for line in lines]

    def prints_what_it_shows(self, command: str, code: int, shown: str) -> None:
        """Run a sample in the repository, and compare."""
        done = run_in(ROOT, command)
        assert (done.code, done.err, done.out) == (code, "", shown)

    def write_files(self, directory: Path) -> None:
        """Write every file that it shows."""
        for name, text in self.files.items():
            (directory / name).write_text(text, encoding="utf-8")

    def keeps_its_word(self, command: str, code: int, directory: Path) -> None:
        """Run a command of gangctl beside the files: it ends with this code, prints what is shown, and no error."""
        done = self.run(command, directory)
        assert (done.code, done.err) == (code, "")
        assert done.out
        assert done.out == self._shown.get(command, done.out)

    def says_something(self, command: str, code: int, directory: Path) -> None:
        """Run it like :meth:`keeps_its_word`; it may add notes, which promise nothing."""
        done = self.run(command, directory)
        assert (done.code, [line for line in done.err.splitlines() if not line.startswith("note: ")]) == (code, [])
        assert done.out

    def run(self, command: str, directory: Path) -> Answer:
        """Run it beside the files, in this process."""
        self.write_files(directory)
        return run_in(directory, command)


def run_in(directory: Path, command: str) -> Answer:
    """Run a command of gangctl in this process, with this working directory."""
    with contextlib.chdir(directory):
        return gangctl(*shlex.split(command)[1:])


def _code(line: str) -> int:
    return int((re.findall(r"# exit (\d)", line) or ["0"])[0])


def _command(line: str) -> str:
    return line.partition("#")[0].strip()
