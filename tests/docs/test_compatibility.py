"""docs/compatibility.md: its versions are those that are tested, what it promises is what the code decides."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from gangctl.api.scheduling import TESTED
from tests.controlplane.minors import MINORS, NEWEST
from tests.docpages import ROOT
from tests.docs.tables import rows
from tests.live import test_jobset_versions_live as jobset_versions
from tests.rows import each

TEXT: Final = (ROOT / "docs/compatibility.md").read_text(encoding="utf-8")
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
ROWS: Final = list(rows(TEXT))
BY_NAME: Final = {row[0]: row for row in ROWS}
KEPS: Final = (ROOT / "docs/reference/keps.md").read_text(encoding="utf-8")
MINOR_NAMES: Final = list(MINORS)


def pinned(module: str, component: str) -> str:
    """The version of a module that the control plane of the tests is built from."""
    text = (ROOT / f"tests/controlplane/gomod/{component}/go.mod").read_text(encoding="utf-8")
    (version,) = set(re.findall(rf"^(?:require)?\s+{re.escape(module)} v(\S+)", text, flags=re.MULTILINE))
    assert isinstance(version, str)
    return version


def test_every_feature_names_its_test() -> None:
    features = [row for row in ROWS if len(row) == 5] + list(rows(KEPS))
    assert len(features) > 40
    assert [row[0] for row in features if row[-1] not in {"verified by", "---"} and "`tests/" not in row[-1]] == []


def test_minors_are_those_that_are_tested() -> None:
    assert list(reversed(MINOR_NAMES)) == [each.kubernetes for each in TESTED]
    assert MINOR_NAMES[0] == NEWEST
    assert {tuple(row[1:4]) for row in ROWS if row[1] == NEWEST} == {tuple(MINOR_NAMES)}
    tested = [pinned("k8s.io/kubernetes", f"kubernetes-{minor}") for minor in MINOR_NAMES]
    assert BY_NAME["tested release"][1:] == tested


def test_versions_and_gates_are_those_of_the_tests() -> None:
    assert BY_NAME["`scheduling.k8s.io/`"][1:] == [f"`{minor.scheduling_version}`" for minor in MINORS.values()]
    (gates,) = [row for name, row in BY_NAME.items() if name.startswith("feature gates of")]
    assert gates[1:] == [", ".join(f"`{gate}`" for gate in minor.gates) for minor in MINORS.values()]


@each(
    ("feature", "capability"),
    [
        ("elastic resize of a gang", "min_count_mutable"),
        ("a pod fails after others have succeeded", "min_count_mutable"),
        ("pods of one gang with different priority classes", "uniform_priority"),
        ("options `topologyKey` and `disruption`", "constraints"),
    ],
)
def test_differences_of_minors_are_those_of_the_adapters(feature: str, capability: str) -> None:
    can = [getattr(each.capabilities, capability) for each in reversed(TESTED)]
    cells = BY_NAME[feature][1:4]
    assert len({cell for cell, able in zip(cells, can, strict=True) if able}) == 1
    assert len({cell for cell, able in zip(cells, can, strict=True) if not able}) == 1
    assert len(set(cells)) == 2


def test_each_cell_of_an_older_jobset_is_a_parameter_of_its_tests() -> None:
    module = Path(jobset_versions.__file__).relative_to(ROOT)
    older = [row for row in ROWS if row[-1] == f"`{module}`"]
    cells = [(row[0], minor) for row in older for minor, cell in zip(MINORS, row[1:4], strict=True) if cell == "yes"]
    assert cells == jobset_versions.TABLE
    named = sorted(set(re.findall(rf"`{module}::(\w+)`", TEXT + KEPS)))
    assert named == sorted(name for name in vars(jobset_versions) if name.startswith("test_"))


def test_the_readme_has_the_same_versions() -> None:
    (table,) = re.findall(r"^\| \| 1\.37 \| 1\.36 \| 1\.35 \|\n\|[-|]+\n((?:\|.*\n)+)", README, flags=re.MULTILINE)
    reported = [row for row in rows(table) if row[0] in BY_NAME]
    assert len(reported) >= 3
    for row in reported:
        assert [cell.replace("warning `MixedPriority`", "warning") for cell in BY_NAME[row[0]][1:4]] == row[1:]


@each(
    ("component", "module", "words"),
    [
        ("jobset", "sigs.k8s.io/jobset", "| {} | yes | yes | yes | everything above"),
        ("kueue", "sigs.k8s.io/kueue", "tested ({}): preemption"),
        ("etcd", "go.etcd.io/etcd/server/v3", "({})"),
        ("trainer", "github.com/kubeflow/trainer/v2", "| Kubeflow Trainer | tested with {} on"),
        ("lws", "sigs.k8s.io/lws", "| LeaderWorkerSet | tested with {} on"),
        ("prometheus", "github.com/prometheus/prometheus", "tested with {} of its module"),
    ],
)
def test_other_components_have_the_versions_of_the_tests(component: str, module: str, words: str) -> None:
    assert words.format(pinned(module, component)) in TEXT
