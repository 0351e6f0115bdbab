"""The pod of the user's, and what gangctl puts beside it."""

from __future__ import annotations

from typing import Final

from gangctl.pathways.problems import InvalidReason as Why
from tests.pathways.refused.case import COLOCATED, POD, Refused, put, user
from tests.pathways.samples import container, pathways_job

HEAD: Final = (
    Refused("no controller", put("spec", "controller"), Why.MALFORMED, "spec.controller", "is required", True),
    Refused(
        "empty controller",
        put("spec", "controller", value={}),
        Why.MALFORMED,
        "spec.controller.deploymentMode",
        "is required",
        True,
    ),
    Refused(
        "no mode",
        put("spec", "controller", "deploymentMode"),
        Why.MALFORMED,
        "spec.controller.deploymentMode",
        "allowed: colocate_head_with_workers, default",
        True,
    ),
    Refused(
        "unknown mode",
        pathways_job(controller={"deploymentMode": "colocate"}),
        Why.MALFORMED,
        "spec.controller.deploymentMode",
        "did you mean colocate_head_with_workers?",
        True,
    ),
    Refused(
        "template without pod",
        pathways_job(controller={"template": {}}),
        Why.MISSING_CONTAINERS,
        f"{POD}.containers",
        "at least one container",
        True,
    ),
    Refused(
        "template without containers",
        pathways_job(controller={"template": {"spec": {"containers": []}}}),
        Why.MISSING_CONTAINERS,
        f"{POD}.containers",
        "at least one container",
        True,
    ),
    Refused(
        "no main container",
        pathways_job(controller={"mainContainerName": "trainer"}),
        Why.MISSING_MAIN_CONTAINER,
        "spec.controller.mainContainerName",
        'there is no container "trainer"',
        True,
    ),
    *(
        Refused(
            f"init container {name}",
            user(initContainers=[container(name)]),
            Why.RESERVED_CONTAINER_NAME,
            f"{POD}.initContainers[0].name",
            "a container that gangctl adds",
            True,
        )
        for name in ("pathways-rm", "pathways-proxy")
    ),
    Refused(
        "both head containers",
        user(container(), container("pathways-rm")),
        Why.RESERVED_CONTAINER_NAME,
        f"{POD}.containers[1].name",
        "choose another",
        True,
    ),
    Refused(
        "one name twice",
        user(container(), initContainers=[container()]),
        Why.MALFORMED,
        f"{POD}.containers[0].name",
        "names must differ",
    ),
    Refused(
        "container without a name",
        user(container(), {"image": "busybox"}),
        Why.MALFORMED,
        f"{POD}.containers[1].name",
        "is required",
        True,
    ),
    Refused(
        "container name with blanks",
        user(container(), container("my log")),
        Why.INVALID_NAME,
        f"{POD}.containers[1].name",
        "cannot name a container",
    ),
    Refused(
        "container without an image",
        user({"name": "main"}),
        Why.INVALID_IMAGE,
        f"{POD}.containers[0].image",
        "required",
    ),
    Refused(
        "variable without a name",
        user(container(env=[{"value": "1"}])),
        Why.INVALID_ENVIRONMENT,
        f"{POD}.containers[0].env[0].name",
        "is required",
    ),
    Refused(
        "restart policy Always",
        user(restartPolicy="Always"),
        Why.MALFORMED,
        f"{POD}.restartPolicy",
        "allowed in a Job: OnFailure, Never",
    ),
    Refused(
        "negative grace of the head",
        user(terminationGracePeriodSeconds=-1),
        Why.INVALID_GRACE_PERIOD,
        f"{POD}.terminationGracePeriodSeconds",
        "at least 0 seconds",
    ),
    Refused(
        "request above limit",
        user(container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}})),
        Why.INVALID_RESOURCES,
        f"{POD}.containers[0].resources.requests.cpu",
        "at most the limit, 1500m; got 2",
    ),
    Refused(
        "no quantity",
        user(container(resources={"limits": {"memory": "lots"}})),
        Why.INVALID_RESOURCES,
        f"{POD}.containers[0].resources.limits.memory",
        '"lots" is not a quantity',
    ),
    Refused(
        "chips for a colocated head",
        user(container(resources={"limits": {"google.com/tpu": 4}}), mode=COLOCATED),
        Why.INVALID_RESOURCES,
        f"{POD}.containers[0].resources.limits[google.com/tpu]",
        "all chips of the node",
    ),
    Refused(
        "a pod smaller than its containers",
        user(container(resources={"requests": {"cpu": "2"}}), resources={"requests": {"cpu": "25500m"}}),
        Why.INVALID_RESOURCES,
        f"{POD}.resources.requests.cpu",
        "26 cpu",
    ),
    Refused(
        "a pod limited to less than its containers",
        user(resources={"limits": {"memory": "131G"}}),
        Why.INVALID_RESOURCES,
        f"{POD}.resources.limits.memory",
        "pathways-rm and pathways-proxy",
    ),
)
