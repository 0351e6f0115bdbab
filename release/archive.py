"""Archives with the same bytes each time."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def pack(path: Path, files: Mapping[str, tuple[Path, int]], time: int) -> None:
    """Write a gzipped tar of files, by their names in it: a path and a mode each, in this order, all of ``time``."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (file, mode) in files.items():
            content = file.read_bytes()
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(content), time, mode
            archive.addfile(info, io.BytesIO(content))
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=time))
