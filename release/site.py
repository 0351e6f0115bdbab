"""The documentation as a site (``python -m release.site``), and the hook of mkdocs for pages outside of docs/.

mkdocs reads docs/ alone. Every other Markdown page becomes ``repository/PATH``, and so does each file that a page links
to; a link to a directory without a page becomes its text, because a site has no listings.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
SITES: Final = ROOT / "site"
"""A directory for each version, and the list by which a page offers the others."""
OUTSIDE: Final = "repository"

_NOT_SHOWN: Final = (".", "docs/", "tests/")
_BOOSTS: Final = (
    ("install.md", 4),
    ("cli.md", 6),
    ("security.md", 4),
    ("tenants.md", 3),
    ("troubleshooting.md", 3),
    ("upgrades.md", 4),
    ("metrics.md", 2),
    ("pathways.md", 2),
    ("platforms.md", 4),
    ("fit.md", 2),
    (f"{OUTSIDE}/CONTRIBUTING.md", 5),
    ("howto/jobsets.md", 6),
    ("howto/", 4),
    ("runbooks/", 0.7),
    ("reference/cli", 0.3),
    ("reference/gang", 0.3),
    ("reference/pathwaysjob", 0.3),
    (f"{OUTSIDE}/policies/", 0.3),
    (f"{OUTSIDE}/charts/", 0.3),
)
"""Pages for tasks are before those about subjects in what a search finds, and these before lists."""
_NOT_SEARCHED: Final = (f"{OUTSIDE}/benchmarks/", f"{OUTSIDE}/CHANGELOG.md", f"{OUTSIDE}/ARCHITECTURE.md")
_KEY: Final = re.compile(r"(?<=Object\.keys\(this\.edges\)\.sort\(\)).{0,80}?\w=\w\+\w\+\w\.id(?=\}return \w\})")
_PATH: Final = re.compile(r"\]\(([^)\s#:]+)")
_CELL_CODE: Final = re.compile(r"(?<=[ (])`[^`\n]*\\\|[^`\n]*`")
_CONSOLE: Final = re.compile(r"^```console$.*?^```$", flags=re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
_NEWEST: Final = '<meta http-equiv="refresh" content="0; url={version}/index.html">\n'


def build_site(directory: Path) -> None:
    """Build into a directory. Raises ``subprocess.CalledProcessError`` for a broken link, too; mkdocs has named it."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(directory)]
    # The theme's author advertises another program at each build.
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)


def main() -> int:
    """Build the site of this version beside those of others; exit code 1 where a page is wrong."""
    from gangctl import __version__  # noqa: PLC0415 -- mkdocs loads this module without the package

    try:
        build_site(SITES / __version__)
    except subprocess.CalledProcessError:
        return 1
    versions = sorted((each.name for each in SITES.iterdir() if each.is_dir()), key=_numbers, reverse=True)
    (SITES / "versions.json").write_text(list_versions(versions), encoding="utf-8")
    (SITES / "index.html").write_text(_NEWEST.format(version=versions[0]), encoding="utf-8")
    sys.stdout.write(f"{(SITES / __version__).relative_to(ROOT)}/index.html\n")
    return 0


def list_versions(versions: Sequence[str]) -> str:
    """``versions.json`` as mike writes it, which pages read to offer other versions; the newest first."""
    return json.dumps([{"version": each, "title": each, "aliases": []} for each in versions])


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give each command and each runbook its place in the navigation (a hook of mkdocs)."""
    for section in config.nav or ():
        for pages in section.values():
            for place, files in (("reference/cli.md", "reference/cli-*.md"), ("runbooks/README.md", "runbooks/*.md")):
                if place in _names(pages):
                    index = _names(pages).index(place)
                    named = {item if isinstance(item, str) else next(iter(item.values())) for item in pages}
                    below = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob(files))
                    title = "Runbooks" if place.startswith("runbooks") else "Commands"
                    pages[index] = {title: [place, *(name for name in below if name not in named)]}
    return config


def _names(pages: Sequence[object]) -> list[object]:
    return [next(iter(item.values())) if isinstance(item, dict) else item for item in pages]


def on_post_build(config: MkDocsConfig) -> None:
    """Repair the search of the theme (a hook of mkdocs). Raises ``ValueError`` for another version of it.

    lunr keys the nodes of its word tree by labels and numbers without a separator: two nodes can have one key where
    words have digits, and then a search for some words fails.
    """
    for worker in Path(config.site_dir, "assets", "javascripts", "workers").glob("search.*.js"):
        changed, places = _KEY.subn(r'\g<0>+"|"', worker.read_text(encoding="utf-8"))
        if places != 1:
            raise ValueError(f"{worker.name} has not one place in which lunr makes the keys of its word tree")
        worker.write_text(changed, encoding="utf-8")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/, and the files that pages link to (a hook of mkdocs)."""
    from mkdocs.structure.files import File  # noqa: PLC0415 -- a development dependency

    pages = [name for name in _known() if name.endswith(".md") and not name.startswith(_NOT_SHOWN)]
    for name in sorted({*pages, *_linked(pages)}):
        files.append(File.generated(config, f"{OUTSIDE}/{name}", abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where the site has their targets (a hook of mkdocs)."""
    del config
    own = page.file.src_uri
    # For people who look for how gangctl works and not for how to use it.
    if own.startswith(_NOT_SEARCHED):
        page.meta["search"] = {"exclude": True}
    else:
        page.meta["search"] = {"boost": next((boost for start, boost in _BOOSTS if own.startswith(start)), 1)}
    source = own.removeprefix(f"{OUTSIDE}/") if own.startswith(f"{OUTSIDE}/") else f"docs/{own}"

    def replaced(link: re.Match[str]) -> str:
        text, path, anchor = link[1], link[2], link[3] or ""
        target = _target(source, path)
        place = target.removeprefix("docs/") if target.startswith("docs/") else f"{OUTSIDE}/{target}"
        if files.get_file_from_path(place) is not None:
            return f"[{text}]({posixpath.relpath(place, posixpath.dirname(own))}{anchor})"
        # What does not exist stays, so that mkdocs refuses it.
        return text if (ROOT / target).exists() else link[0]

    # In code of a cell, GitHub needs a backslash before a bar, and mkdocs shows it.
    markdown = _CELL_CODE.sub(lambda code: code[0].replace("\\|", "|"), markdown)
    # Output that begins with # would be taken for a command of root, and copied.
    markdown = _CONSOLE.sub(lambda block: block[0].replace("\n# ", "\n\N{ZERO WIDTH SPACE}# "), markdown)
    return _LINK.sub(replaced, markdown)


def _target(source: str, path: str) -> str:
    """Where a link leads, below the repository; to the page of a directory."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    return f"{target}/README.md" if f"{target}/README.md" in _known() else target


def _linked(pages: list[str]) -> set[str]:
    """Files outside of docs/ that are no pages themselves; pictures, too."""
    sources = [*pages, *(name for name in _known() if name.startswith("docs/") and name.endswith(".md"))]
    targets = {
        _target(name, path) for name in sources for path in _PATH.findall((ROOT / name).read_text(encoding="utf-8"))
    }
    return {each for each in targets if each in _known() and not each.endswith(".md") and not each.startswith("docs/")}


@cache
def _known() -> frozenset[str]:
    """The files that git knows or would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return frozenset(name for name in listed if (ROOT / name).is_file())


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


if __name__ == "__main__":
    sys.exit(main())
