"""The shells that the wrapper is run with."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from gangctl.pathways.flags.userpod import Shell
from tests.pathways.wrapper.busybox import MissingShell, ensure_applets, ensure_busybox
from tests.pathways.wrapper.containers import Image, way_in

IMAGES = ("bash", "dash", "busybox", "bash-as-sh")


@pytest.fixture(params=IMAGES)
def image(request: pytest.FixtureRequest) -> Image:
    """An image for each shell; what the machine lacks is a skip with a reason, and a failure in CI."""
    return find_image(request.param)


def find_image(name: str) -> Image:
    """The image, if this machine can have it."""
    if way_in() is None:
        _missing("unshare cannot make PID and mount namespaces here, as root or with a user namespace")
    if not Path("/bin/bash").exists():
        _missing("there is no /bin/bash")
    if name == "bash":
        return Image(name, Shell.BASH)
    if name == "busybox":
        try:
            program = ensure_busybox()
            return Image(name, Shell.SH, program, str(ensure_applets(program)))
        except (MissingShell, OSError, subprocess.SubprocessError) as missing:
            _missing(str(missing))
    found = shutil.which(name.removesuffix("-as-sh"))
    if found is None or shutil.which("setsid") is None:
        _missing(f"there is no {name}, or no setsid")
    return Image(name, Shell.SH, Path(found))


def _missing(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"CI must run the wrapper in every shell: {what}", pytrace=False)
    pytest.skip(f"the wrapper was not run: {what}")
