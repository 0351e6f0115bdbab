"""
The first process of a node: `python -I -S node_init.py FILE`, in PID and mount namespaces of its own.

It starts containerd, imports the images, and then runs the kubelet. When one of the two ends, or this process is
killed, the kernel ends everything else of the node, its containers included, and removes its mounts: that is what the
loss of a machine looks like, and what cleaning up needs.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    # The kubelet and containerd share mounts with each other, and not with the host.
    _run("mount", "--make-rshared", "/")
    for directory in ("/run", "/var/log"):
        _run("mount", "-t", "tmpfs", "tmpfs", directory)
    containerd = subprocess.Popen(given["containerd"])
    while not Path(given["socket"]).exists():
        if containerd.poll() is not None:
            raise SystemExit(f"containerd exited with {containerd.returncode}")
        time.sleep(0.05)
    for image in given["images"]:
        _run(*given["import"], image)
    kubelet = subprocess.Popen(given["kubelet"])
    Path(given["started"]).touch()
    while True:
        # The first process inherits orphans: it waits for all of them, and for these two.
        pid, status = os.wait()
        if pid in {containerd.pid, kubelet.pid}:
            name = "containerd" if pid == containerd.pid else "the kubelet"
            raise SystemExit(f"{name} ended: {os.waitstatus_to_exitcode(status)}")


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
