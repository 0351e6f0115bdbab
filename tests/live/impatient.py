"""``gangctl`` that waits for a silent server for seconds where the shipped one waits for a minute and a half.

Nothing else about it differs: a test cannot wait that long.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from gangctl import cli
from gangctl.client import watch
from gangctl.client.transport import TransportOptions

IDLE_SECONDS: Final = 3.0
_watch = watch.watch


def _impatient_watch(
    *arguments: Any, options: watch.WatchOptions | None = None, **further: Any
) -> AsyncGenerator[watch.WatchEvent, None]:
    options = replace(options or watch.WatchOptions(), read_timeout_seconds=IDLE_SECONDS)
    return _watch(*arguments, options=options, **further)


if __name__ == "__main__":
    options = partial(TransportOptions, timeout_seconds=IDLE_SECONDS)
    with (
        patch("gangctl.client.client.watch", _impatient_watch),
        patch("gangctl.manager.process.TransportOptions", options),
    ):
        cli.main()
