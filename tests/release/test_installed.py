"""gangctl as installed: the wheel in an environment with the locked packages and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import pytest

from gangctl import __version__
from release.lock import read_lock
from tests.release import containerfile
from tests.release.conftest import ROOT, Built

pytestmark = pytest.mark.xdist_group("release")

IMAGE = containerfile.variables(containerfile.stages(containerfile.PATH.read_text(encoding="utf-8"))[-1], "ENV")
"""Programs run with the variables that they have in the image."""

IMPORT_EVERYTHING = """
import importlib, pkgutil, gangctl
modules = [module.name for module in pkgutil.walk_packages(gangctl.__path__, "gangctl.")]
for name in modules:
    if name != "gangctl.__main__":
        importlib.import_module(name)
print(len(modules), gangctl.__file__)
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and a directory that has nothing of the tree."""

    directory: Path
    outside: Path

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program of it, by name."""
        program, *arguments = command
        return subprocess.run(
            [self.directory / "bin" / program, *arguments],
            cwd=self.outside,
            env={**IMAGE, "PATH": os.defpath, "HOME": str(self.outside)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def answers(self, *command: str | Path) -> str:
        """Run it: it ends well and complains of nothing."""
        done = self.run(*command)
        assert not done.stderr, done.stderr
        assert done.returncode == 0, done.stdout
        return done.stdout


def pip(environment: Path, *arguments: str | Path) -> str:
    """The pip of this environment works on that one: nothing has to be installed there that gangctl does not need."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(environment / "bin/python")]
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def environment(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The locked packages are links to those installed here, so that no network is asked and no time is lost."""
    outside = tmp_path_factory.mktemp("outside")
    directory = outside / "venv"
    venv.create(directory, symlinks=True)
    place = Path(sysconfig.get_path("purelib", "venv", {"base": str(directory), "platbase": str(directory)}))
    for package in read_lock(ROOT / "locks" / "runtime.txt"):
        installed = distribution(package.name)
        assert installed.version == package.version
        tops = {PurePosixPath(file).parts[0] for file in installed.files or ()}
        for top in tops - {"..", "__pycache__"}:
            (place / top).symlink_to(Path(str(installed.locate_file(top))))
    pip(directory, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", built.wheel)
    return Environment(directory, outside)


def test_all_requirements_are_installed(environment: Environment) -> None:
    assert pip(environment.directory, "check") == "No broken requirements found.\n"


def test_every_module_can_be_imported(environment: Environment, built: Built) -> None:
    count, place = environment.answers("python", "-I", "-W", "error", "-c", IMPORT_EVERYTHING).split()
    assert Path(place).is_relative_to(environment.directory)
    modules = {name for name in built.files if name.startswith("gangctl/") and name.endswith(".py")}
    assert int(count) == len(modules) - 1  # the package itself is where the walk begins


@pytest.mark.parametrize(("program", "name"), [("gangctl", "gangctl"), ("kubectl-gang", "kubectl gang")])
def test_programs_print_their_version(environment: Environment, program: str, name: str) -> None:
    assert environment.answers(program, "--version") == f"{name} {__version__}\n"


def test_kubectl_completes_the_plugin(environment: Environment) -> None:
    assert environment.answers("kubectl_complete-gang", "pla").startswith("plan")


def test_the_installed_program_plans(environment: Environment) -> None:
    plan = json.loads(environment.run("gangctl", "plan", "-f", ROOT / "examples/01-pytorch.yaml", "-o", "json").stdout)
    assert (plan["kind"], plan["gangedPods"]) == ("GangPlan", plan["totalPods"])


def test_the_installed_program_evaluates_policies_without_the_optional_engine(environment: Environment) -> None:
    assert environment.answers("gangctl", "policy", "test", ROOT / "policies/gang-required")
    assert environment.run("python", "-c", "import cel_expr_python").returncode == 1


def test_the_installed_program_has_the_manifests(environment: Environment) -> None:
    assert (
        "deployment.apps/gangctl"
        in environment.answers("gangctl", "install", "--image", "a/b:1", "-o", "name").splitlines()
    )


def test_the_sandbox_has_its_table_of_fields(environment: Environment) -> None:
    code = "from gangctl.apiserver.fields import fields_of; print('JobSet' in str(fields_of('1.37').kinds))"
    assert environment.answers("python", "-c", code) == "True\n"
