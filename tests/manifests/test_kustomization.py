"""The directories are whole: every file is listed, every reference between objects leads somewhere."""

from pathlib import Path

import yaml

from tests.manifests.files import MANIFESTS, ROOT, documents, one
from tests.manifests.kustomizations import CLUSTER
from tests.rows import each

KUSTOMIZATIONS = sorted(path.parent for path in MANIFESTS.rglob("kustomization.yaml"))
OURS = ("base", "flowcontrol", "out-of-cluster", "policies", "policies/crds", "rbac", "rbac/registration")
BASE = MANIFESTS / "base"
RULES = MANIFESTS / "monitoring" / "rules"
CONFIGURATIONS = {
    directory / name
    for directory in KUSTOMIZATIONS
    for name in one(directory / "kustomization.yaml").get("configurations", [])
}
OBJECTS = sorted(path for path in MANIFESTS.rglob("*.yaml") if path.parent != RULES and path not in CONFIGURATIONS)


@each("name", OURS)
def test_lists_every_file_beside_it(name: str) -> None:
    directory = MANIFESTS / name
    listed = set(one(directory / "kustomization.yaml")["resources"])
    beside = {path for path in directory.glob("*.yaml") if path.name != "kustomization.yaml"} - CONFIGURATIONS
    assert {directory / entry for entry in listed if entry.endswith(".yaml")} == beside


@each("directory", KUSTOMIZATIONS, ids=lambda path: str(path.relative_to(MANIFESTS)))
def test_lists_only_existing_files(directory: Path) -> None:
    kustomization = one(directory / "kustomization.yaml")
    assert kustomization["kind"] in {"Kustomization", "Component"}
    for entry in (item for key in ("resources", "components", "configurations") for item in kustomization.get(key, [])):
        assert (directory / entry).exists(), f"{entry} is not there"


@each("path", OBJECTS, ids=lambda path: str(path.relative_to(MANIFESTS)))
def test_every_file_holds_named_objects(path: Path) -> None:
    found = documents(path)
    assert found
    assert all(document["apiVersion"] and document["kind"] for document in found)
    if path.name != "kustomization.yaml":
        assert all(document["metadata"]["name"] for document in found)


def test_namespaced_objects_of_the_base_are_in_its_namespace() -> None:
    for document in documents(BASE):
        if document["kind"] not in {*CLUSTER, "Kustomization"}:
            assert document["metadata"]["namespace"] == "gangctl-system", document["metadata"]["name"]


def test_no_name_is_used_twice() -> None:
    built = [each for name in OURS for each in documents(MANIFESTS / name)]
    identities = [(each["kind"], each["metadata"]["name"]) for each in built if "metadata" in each]
    assert len(set(identities)) == len(identities)


def test_pre_commit_runs_what_make_test_runs() -> None:
    configuration = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repository in configuration["repos"] for hook in repository["hooks"]]
    assert {repository["repo"] for repository in configuration["repos"]} == {"local"}
    assert {hook["language"] for hook in hooks} == {"system"}
    recipe = (ROOT / "Makefile").read_text().partition("\n$(CHECKED):")[2].partition("\n\n")[0]
    for hook in hooks:
        tool = hook["entry"].removeprefix(".venv/bin/").partition(" ")[0]
        assert f"$(BIN)/{tool}" in recipe
