"""Images of Pathways: custom ones, versions, registries, and those that move."""

from __future__ import annotations

import pytest

from gangctl.gang.reasons import Reason
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.rendering.containers import floating, images
from gangctl.pathways.result import Origin, OriginKind, Profile, RenderingInputs
from tests.pathways.rendering.jobs import components, job
from tests.rows import each

GOOGLE = "us-docker.pkg.dev/cloud-tpu-v2-images/pathways"
PINNED = "r/i@sha256:" + "0" * 64


def chosen(pathways: PathwaysJob, profile: Profile = Profile.GANG) -> dict[str, str]:
    return {name: image.value for name, image in images(pathways, RenderingInputs(profile=profile)).items()}


def test_all_images_of_pathways_are_of_the_version_asked_for() -> None:
    assert chosen(job(pathways_version="v9")) == {
        "pathways-rm": f"{GOOGLE}/server:v9",
        "pathways-proxy": f"{GOOGLE}/proxy_server:v9",
        "pathways-worker": f"{GOOGLE}/server:v9",
    }


def test_without_a_version_images_are_the_latest() -> None:
    assert {image.rpartition(":")[2] for image in chosen(job()).values()} == {"latest"}


def test_a_custom_image_of_the_worker_leaves_the_others_alone() -> None:
    pathways = job(pathways_version="v9", components=components(worker={"image": "x:y"}))
    assert chosen(pathways) == {
        "pathways-rm": f"{GOOGLE}/server:v9",
        "pathways-proxy": f"{GOOGLE}/proxy_server:v9",
        "pathways-worker": "x:y",
    }


@each(
    ("profile", "worker"),
    [(Profile.GANG, f"{GOOGLE}/server:v9"), (Profile.XPK, "mine:1")],
    ids=str,
)
def test_only_the_profile_of_xpk_gives_the_worker_the_custom_server(profile: Profile, worker: str) -> None:
    pathways = job(pathways_version="v9", components=components(pathways_server={"image": "mine:1"}))
    assert chosen(pathways, profile)["pathways-rm"] == "mine:1"
    assert chosen(pathways, profile)["pathways-worker"] == worker


def test_the_worker_of_xpk_prefers_its_own_image() -> None:
    pathways = job(components=components(pathways_server={"image": "s:1"}, worker={"image": "w:1"}))
    assert chosen(pathways, Profile.XPK)["pathways-worker"] == "w:1"


def test_a_component_without_an_image_runs_the_ordinary_one() -> None:
    pathways = job(pathways_version="v9", components=components(proxy_server={"flags": ("--v=1",)}))
    assert chosen(pathways)["pathways-proxy"] == f"{GOOGLE}/proxy_server:v9"


@pytest.mark.parametrize("registry", ["mirror:5000/p", "mirror:5000/p/"])
def test_another_registry_serves_what_is_not_custom(registry: str) -> None:
    pathways = job(
        pathways_version="v9",
        options=PathwaysOptions(image_registry=registry),
        components=components(proxy_server={"image": "x:y"}),
    )
    assert chosen(pathways) == {
        "pathways-rm": "mirror:5000/p/server:v9",
        "pathways-proxy": "x:y",
        "pathways-worker": "mirror:5000/p/server:v9",
    }


def test_the_sidecar_has_an_image_where_one_is_named() -> None:
    assert chosen(job(components=components(colocated_python_sidecar={"image": "s:1"})))[
        "colocated-python-sidecar"
    ] == ("s:1")


def test_an_image_comes_from_the_field_that_decides_it() -> None:
    pathways = job(pathways_version="v9", components=components(worker={"image": "x:y"}))
    found = {name: image.origin.place for name, image in images(pathways, RenderingInputs()).items()}
    assert found == {
        "pathways-rm": "spec.pathwaysVersion",
        "pathways-proxy": "spec.pathwaysVersion",
        "pathways-worker": "spec.customComponents[0].image",
    }


def test_an_image_that_was_not_chosen_is_a_default() -> None:
    assert {image.origin.kind for image in images(job(), RenderingInputs()).values()} == {OriginKind.DEFAULT}


def test_an_image_from_a_flag_names_the_flag() -> None:
    flag = Origin(OriginKind.FLAG, "--worker-image")
    pathways = job(components=components(worker={"image": "x:y"}), sources={"spec.customComponents[0].image": flag})
    assert images(pathways, RenderingInputs())["pathways-worker"].origin == flag


@each("image", ["x", "x:latest", "host:5000/x", "host:5000/x:latest"])
def test_an_image_without_a_version_gives_a_notice(image: str) -> None:
    (notice,) = floating(job(pathways_version="v9", components=components(worker={"image": image})), RenderingInputs())
    assert notice.reason is Reason.FLOATING_IMAGE
    assert "pathways-worker" in notice.message
    assert "pathways-rm" not in notice.message


@each("image", ["x:1", "host:5000/x:1", PINNED, f"host:5000/x:latest@sha256:{'0' * 64}"])
def test_an_image_with_a_version_gives_no_notice(image: str) -> None:
    assert floating(job(pathways_version="v9", components=components(worker={"image": image})), RenderingInputs()) == ()


def test_one_notice_names_all_containers() -> None:
    (notice,) = floating(job(), RenderingInputs())
    assert all(name in notice.message for name in ("pathways-rm", "pathways-proxy", "pathways-worker"))


def test_the_notice_names_the_missing_field_or_flag() -> None:
    sources = {"spec.pathwaysVersion": Origin(OriginKind.FLAG, "--pathways-version")}
    for made, name in ((job(), "spec.pathwaysVersion"), (job(sources=sources), "--pathways-version")):
        (notice,) = floating(made, RenderingInputs())
        assert f"set {name} or" in notice.message
