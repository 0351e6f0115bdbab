"""Whether a node is large enough for the head."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.fit.floor import read_node
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.draft import check_head
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.rendering.jobset import render
from tests.pathways.samples import container, pathways_job, template

Object = dict[str, Any]
TAINT = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
TPU_LABELS = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice",
    "cloud.google.com/gke-tpu-topology": "2x2x2",
    "cloud.google.com/gke-nodepool": "tpus",
}


def node(name: str = "n", cpu: str = "24", memory: str = "132G", *, taints: Any = (), **labels: str) -> Object:
    """A node that holds the head of the base, and no more."""
    amounts = {"cpu": cpu, "memory": memory}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints)},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def said(job: Object, *nodes: Object) -> Notice | None:
    read = read_pathways_job(job).job
    assert read is not None
    return check_head(render(read), [read_node(each) for each in nodes])


@pytest.mark.parametrize(
    ("cpu", "memory", "fits"), [("24", "132G", True), ("23.9", "132G", False), ("24", "131G", False)]
)
def test_a_node_as_large_as_the_requests_fits(cpu: str, memory: str, *, fits: bool) -> None:
    assert (said(pathways_job(), node(cpu=cpu, memory=memory)) is None) is fits


def test_one_large_enough_node_is_sufficient() -> None:
    assert said(pathways_job(), node("a", "1"), node("b"), node("c", "2")) is None


def test_the_nearest_node_is_named_with_what_it_lacks() -> None:
    notice = said(pathways_job(), node("many-cpus", cpu="100", memory="10G"), node("nearly", cpu="20"))
    assert notice is not None
    assert notice.reason is Reason.HEAD_DOES_NOT_FIT
    assert notice.is_warning
    assert "2 nodes take it by labels and taints, none is that large. The nearest, nearly, has 20 cpu" in notice.message


def test_without_nodes_nothing_is_reported() -> None:
    assert said(pathways_job()) is None


def test_unselected_nodes_are_ignored() -> None:
    job = pathways_job(controller={"template": template(nodeSelector={"pool": "cpu"})})
    assert said(job, node(cpu="1")) is None
    assert said(job, node(cpu="1", pool="cpu")) is not None


def test_untolerated_nodes_are_ignored() -> None:
    assert said(pathways_job(), node(cpu="1", taints=[TAINT])) is None


def test_a_head_beside_the_workers_is_on_their_nodes() -> None:
    job = pathways_job(controller={"deploymentMode": "colocate_head_with_workers"})
    assert said(job, node(cpu="1")) is None
    assert said(job, node(cpu="1", taints=[TAINT], **TPU_LABELS)) is not None
    assert said(job, node(taints=[TAINT], **TPU_LABELS)) is None


def test_containers_of_the_user_count() -> None:
    job = pathways_job(controller={"template": template(container(resources={"requests": {"cpu": "1"}}))})
    notice = said(job, node())
    assert notice is not None
    assert "25 cpu" in notice.message


def test_a_node_without_capacity_is_ignored() -> None:
    assert said(pathways_job(), {"metadata": {"name": "new"}}) is None
