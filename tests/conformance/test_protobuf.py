"""Bodies in protobuf, which kubectl sends for what it creates by name."""

import json

import pytest

from tests.conformance.answers import send
from tests.conformance.grounds import Server
from tests.conformance.objects import NAMESPACES, configmaps, jobs, secrets
from tests.controlplane.api import Object, path_of
from tests.protobufs import MEDIA_TYPE, Field, envelope, message
from tests.rows import each


async def made(server: Server, path: str, body: bytes, content_type: str = MEDIA_TYPE) -> Object:
    """An object of a body, without what no two objects have the same."""
    # A body is text here: no field has a number above 15, and nothing is longer than 127 bytes.
    answer = await send(server.api, "POST", path, body.decode("ascii"), content_type)
    assert answer.status == 201, answer.text
    created: Object = answer.body
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        created["metadata"].pop(field, None)
    return created


async def test_a_body_in_protobuf_is_accepted(server: Server, namespace: str) -> None:
    data = message((1, "k"), (2, "v"))
    body = message((1, message((1, "a"))), (2, data))
    created = await made(server, configmaps(namespace), envelope("v1", "ConfigMap", body))
    assert created == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": namespace},
        "data": {"k": "v"},
    }

    # An envelope may leave the type to the path.
    body = message((1, message((1, "b"))), (3, message((1, "k"), (2, "bytes"))))
    created = await made(server, configmaps(namespace), envelope("", "", body))
    assert created["binaryData"] == {"k": "Ynl0ZXM="}

    # What Go writes although it is empty is not there.
    empty = tuple((number, "") for number in (2, 3, 4, 5, 6))
    body = message((1, message((1, f"{namespace}-b"), *empty, (7, 0), (8, ""))), (2, ""), (3, message((1, ""))))
    created = await made(server, NAMESPACES, envelope("v1", "Namespace", body))
    assert created["metadata"].keys() <= {"name", "labels"}
    assert created["spec"] == {"finalizers": ["kubernetes"]}

    body = message((1, message((1, "c"))), (2, message((1, "k"), (2, "v"))), (3, "Opaque"), (5, 0))
    created = await made(server, secrets(namespace), envelope("v1", "Secret", body))
    assert (created["data"], created["type"], created["immutable"]) == ({"k": "dg=="}, "Opaque", False)


LIMITS = message((1, message((1, "cpu"), (2, message((1, "500m"))))))
PROBE = message((1, message((3, message((1, message((1, 1), (2, 0), (3, "web"))))))), (2, 7))
VARIABLE = message((1, "V"), (2, ""), (3, message((3, message((1, message((1, "cm"))), (2, "k"), (3, 0))))))


@each(
    ("pod", "same"),
    [
        pytest.param(
            ((2, message((1, "c"), (2, "i"), (3, "sh"), (8, LIMITS), (10, PROBE))), (4, 0)),
            {
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "command": ["sh"],
                        "resources": {"limits": {"cpu": "500m"}},
                        "livenessProbe": {"tcpSocket": {"port": "web"}, "initialDelaySeconds": 7},
                    }
                ],
                "terminationGracePeriodSeconds": 0,
            },
            id="quantity-port-and-zero-of-a-pointer",
        ),
        pytest.param(
            (
                (1, message((1, "v"), (2, message((2, message((1, "Memory"))))))),
                (2, message((1, "c"), (2, "i"), (7, VARIABLE))),
                (7, message((1, "zone"), (2, "z"))),
                (11, 0),
            ),
            {
                "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "env": [
                            {
                                "name": "V",
                                "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k", "optional": False}},
                            }
                        ],
                    }
                ],
                "nodeSelector": {"zone": "z"},
            },
            id="inlined-structs-and-a-map",
        ),
    ],
)
async def test_a_job_is_the_same_in_protobuf_and_in_json(
    server: Server, namespace: str, pod: tuple[Field, ...], same: Object
) -> None:
    template = message((2, message(*pod, (3, "Never"))))
    spec = message((1, 2), (7, 0), (6, template), (10, 1))
    named = message((2, "b-"))
    text = await made(
        server,
        jobs(namespace),
        json.dumps(
            {
                "metadata": {"generateName": "b-"},
                "spec": {
                    "parallelism": 2,
                    "backoffLimit": 0,
                    "suspend": True,
                    "template": {"spec": {**same, "restartPolicy": "Never"}},
                },
            }
        ).encode(),
        "application/json",
    )
    binary = await made(server, jobs(namespace), envelope("batch/v1", "Job", message((1, named), (2, spec))))
    for job in (binary, text):
        job["metadata"].pop("labels", None)
        job["metadata"].pop("name")
        job["spec"].pop("selector")
        job["spec"]["template"].pop("metadata")
    assert binary == text


@each(
    "body",
    [
        pytest.param("nonsense", id="no-magic"),
        pytest.param("k8s\x00\x0a\x10v1", id="cut-envelope"),
        pytest.param(envelope("v1", "ConfigMap", b"\x0a\x05").decode(), id="cut-message"),
        pytest.param(envelope("v1", "ConfigMap", message((1, 5))).decode(), id="number-for-message"),
    ],
)
async def test_a_body_that_is_no_message_is_400(server: Server, namespace: str, body: str) -> None:
    answer = await send(server.api, "POST", configmaps(namespace), body, MEDIA_TYPE)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")


async def test_a_message_of_another_kind_is_400(server: Server, namespace: str) -> None:
    body = envelope("v1", "Secret", message((1, message((1, "a")))))
    answer = await send(server.api, "POST", configmaps(namespace), body.decode(), MEDIA_TYPE)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"].startswith('Secret in version "v1" cannot be handled as a ConfigMap')


async def test_reviews_in_protobuf_are_answered(server: Server) -> None:
    spec = message((1, message((1, "default"), (2, "get"), (5, "pods"))))
    body = envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", message((2, spec)))
    review = path_of("authorization.k8s.io/v1", "selfsubjectaccessreviews")
    created = await made(server, review, body)
    assert created["spec"] == {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}
    assert created["status"]["allowed"] is True
