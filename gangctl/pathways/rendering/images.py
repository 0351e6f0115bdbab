"""Which image each container of Pathways runs.

A custom image is used unchanged. The others come from one registry in one version: ``pathwaysVersion``, or
``latest`` by default. The resource manager and the workers are the same program; still, a worker without
an image of its own runs the ordinary server image and not the resource manager's custom one, as it does with the
upstream controller. XPK gives it the resource manager's, and so does its profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.job import Component, ComponentType, PathwaysJob
from gangctl.pathways.origins import From, Origin, OriginKind
from gangctl.pathways.result import Profile, Setting
from gangctl.pathways.words import (
    DEFAULT_REGISTRY,
    PROXY_CONTAINER,
    PROXY_IMAGE,
    RESOURCE_MANAGER_CONTAINER,
    SERVER_IMAGE,
    SIDECAR_CONTAINER,
    WORKER_CONTAINER,
)

VERSION_PATH: Final = "spec.pathwaysVersion"
_FLOATING: Final = "latest"


def images(job: PathwaysJob, setting: Setting) -> Mapping[str, From]:
    """Images by name of the container, of every container that gangctl adds; the sidecar only if it has one."""
    server = job.components.get(ComponentType.SERVER)
    worker = job.components.get(ComponentType.WORKER)
    if setting.profile is Profile.XPK and not (worker and worker.image):
        worker = server
    sidecar = job.components.get(ComponentType.SIDECAR)
    chosen = {
        RESOURCE_MANAGER_CONTAINER: _image(job, server, SERVER_IMAGE),
        PROXY_CONTAINER: _image(job, job.components.get(ComponentType.PROXY), PROXY_IMAGE),
        WORKER_CONTAINER: _image(job, worker, SERVER_IMAGE),
    }
    return chosen | ({SIDECAR_CONTAINER: _custom(job, sidecar)} if sidecar and sidecar.image else {})


def floating(job: PathwaysJob, setting: Setting) -> tuple[Notice, ...]:
    """One notice that names every container whose image may be another one after a restart."""
    names = [name for name, image in images(job, setting).items() if _floats(image.value)]
    if not names:
        return ()
    message = (
        f"the image may change from one restart to the next, it has no version: {', '.join(names)}; "
        f"set {job.origin(VERSION_PATH).place} or an image with a tag or digest"
    )
    return (Notice(Reason.FLOATING_IMAGE, message),)


def _image(job: PathwaysJob, component: Component | None, name: str) -> From:
    if component is not None and component.image:
        return _custom(job, component)
    registry = (job.options.image_registry or DEFAULT_REGISTRY).rstrip("/")
    image = f"{registry}/{name}:{job.pathways_version or _FLOATING}"
    origin = job.origin(VERSION_PATH)
    if job.pathways_version:
        return From(image, Origin(origin.kind, origin.place, f"from {registry}"))
    return From(image, Origin(OriginKind.DEFAULT, origin.place, f"from {registry}, no version asked for"))


def _custom(job: PathwaysJob, component: Component) -> From:
    return From(component.image, job.origin(f"{component.path}.image"))


def _floats(image: str) -> bool:
    name, _, digest = image.partition("@")
    _, _, tag = name.rpartition("/")[2].partition(":")
    return not digest and tag in {"", _FLOATING}
