"""Secrets, Leases and Events: what is filled in, and what Leases and Events demand of themselves."""

import base64

from tests.conformance.answers import bad_request, invalid
from tests.conformance.grounds import Server
from tests.conformance.objects import lease, leases, names_of, secret, secrets
from tests.controlplane.api import Object, path_of
from tests.rows import each


def text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


async def test_string_data_of_a_secret_is_encoded(server: Server, namespace: str) -> None:
    # A secret takes text and gives bytes.
    created = await server.api.create(
        secrets(namespace), secret("a", stringData={"k": "v", "j": "w"}, data={"j": text("lost"), "i": text("u")})
    )
    assert created["data"] == {"i": text("u"), "j": text("w"), "k": text("v")}
    assert "stringData" not in created
    assert created["type"] == "Opaque"

    # Text is laid over the bytes of a secret.
    await server.api.create(secrets(namespace), secret("b", data={"k": text("v"), "j": text("w")}))
    patched = await server.api.patch(secrets(namespace, "b"), {"stringData": {"j": "new"}})
    assert patched["data"] == {"k": text("v"), "j": text("new")}
    assert "stringData" not in patched


async def test_a_lease_is_stored_as_written(server: Server, namespace: str) -> None:
    # A lease is kept as it was written.
    spec = {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.123456Z",
        "renewTime": "2026-01-01T00:00:01.000000Z",
        "leaseTransitions": 0,
    }
    created = await server.api.create(leases(namespace), {**lease("a"), "spec": spec})
    assert created["spec"] == spec
    assert (await server.api.create(leases(namespace), lease("b")))["spec"] == {}

    # Times of a lease have microseconds.
    await bad_request(
        server.api.create(leases(namespace), {**lease("a"), "spec": {"renewTime": "2026-01-01T00:00:00Z"}}),
        saying='Lease in version "v1" cannot be handled as a Lease: parsing time "2026-01-01T00:00:00Z"',
    )


@each(
    ("spec", "words"),
    [
        ({"leaseDurationSeconds": 0}, "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"),
        ({"leaseTransitions": -1}, "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"),
    ],
)
async def test_a_lease_is_validated(server: Server, namespace: str, spec: Object, words: str) -> None:
    await invalid(
        server.api.create(leases(namespace), {**lease("a"), "spec": spec}),
        f'Lease.coordination.k8s.io "a" is invalid: {words}',
    )


def old_events(namespace: str, name: str | None = None) -> str:
    return path_of("v1", "events", namespace=namespace, name=name)


def new_events(namespace: str, name: str | None = None) -> str:
    return path_of("events.k8s.io/v1", "events", namespace=namespace, name=name)


def subject(namespace: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": namespace, "uid": "u"}


def new_event(namespace: str, name: str = "new", **fields: object) -> Object:
    return {
        "metadata": {"name": name},
        "regarding": subject(namespace),
        "reason": "R",
        "note": "N",
        "type": "Warning",
        "action": "A",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/controller",
        "reportingInstance": "i",
        **fields,
    }


async def test_events_are_read_in_both_groups(server: Server, namespace: str) -> None:
    # An old event is read as a new one.
    await server.api.create(
        old_events(namespace),
        {
            "metadata": {"name": "a"},
            "involvedObject": subject(namespace),
            "reason": "R",
            "message": "M",
            "type": "Normal",
            "count": 3,
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:01:00Z",
            "source": {"component": "c", "host": "h"},
        },
    )
    read = await server.api.get(new_events(namespace, "a"))
    assert read.pop("metadata")["name"] == "a"
    assert read == {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "eventTime": None,
        "regarding": subject(namespace),
        "reason": "R",
        "note": "M",
        "type": "Normal",
        "deprecatedCount": 3,
        "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
        "deprecatedLastTimestamp": "2026-01-01T00:01:00Z",
        "deprecatedSource": {"component": "c", "host": "h"},
    }

    # A new event is read as an old one.
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:02:00.000000Z"}
    await server.api.create(new_events(namespace), new_event(namespace, series=series))
    read = await server.api.get(old_events(namespace, "new"))
    assert read.pop("metadata")["name"] == "new"
    assert read == {
        "kind": "Event",
        "apiVersion": "v1",
        "involvedObject": subject(namespace),
        "reason": "R",
        "message": "N",
        "type": "Warning",
        "action": "A",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "series": series,
        "reportingComponent": "example.com/controller",
        "reportingInstance": "i",
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
    }


async def test_events_are_selected_by_the_fields_of_their_object(server: Server, namespace: str) -> None:
    await server.api.create(new_events(namespace), new_event(namespace))
    await server.api.create(
        new_events(namespace), new_event(namespace, "other", regarding={**subject(namespace), "name": "b"})
    )
    for path, field in ((old_events(namespace), "involvedObject"), (new_events(namespace), "regarding")):
        assert names_of(await server.api.list(path, fieldSelector=f"{field}.name=a,type=Warning")) == ["new"]
    await bad_request(
        server.api.list(new_events(namespace), fieldSelector="involvedObject.name=a"),
        "field label not supported: involvedObject.name",
    )

    # The source of a new event is its controller.
    old = {"metadata": {"name": "a"}, "involvedObject": subject(namespace), "source": {"component": "c"}}
    await server.api.create(old_events(namespace), old)
    for source, names in (("c", ["a"]), ("example.com/controller", ["new", "other"])):
        assert names_of(await server.api.list(old_events(namespace), fieldSelector=f"source={source}")) == names


async def test_an_event_is_validated(server: Server, namespace: str) -> None:
    # A new event has a time.
    body = new_event(namespace)
    del body["eventTime"]
    await invalid(server.api.create(new_events(namespace), body), 'Event "new" is invalid: eventTime: Required value')

    # Times have a zone.
    odd = {"metadata": {"name": "a"}, "involvedObject": subject(namespace), "firstTimestamp": "2026-01-01T00:00:00"}
    await bad_request(
        server.api.create(old_events(namespace), odd),
        saying='Event in version "v1" cannot be handled as a Event: parsing time "2026-01-01T00:00:00"',
    )

    # An event is where its subject is.
    await invalid(
        server.api.create(old_events(namespace), {"metadata": {"name": "a"}, "involvedObject": {"namespace": "other"}}),
        'Event "a" is invalid: involvedObject.namespace: Invalid value: "other": does not match event.namespace',
    )

    about_none = {"kind": "Node", "name": "n"}
    message = 'Event "new" is invalid: involvedObject.namespace: Invalid value: "": does not match event.namespace'
    await invalid(
        server.api.create(new_events(namespace), new_event(namespace, regarding=about_none), dryRun="All"), message
    )
    for place in ("default", "kube-system"):
        await server.api.create(new_events(place), new_event(place, regarding=about_none), dryRun="All")
    # One with a time may be anywhere, and is checked as a new one.
    apart = new_event(namespace, regarding=subject("other"))
    await server.api.create(new_events(namespace), apart, dryRun="All")
    timed = {"metadata": {"name": "a"}, "involvedObject": subject("other"), "eventTime": apart["eventTime"]}
    await invalid(
        server.api.create(old_events(namespace), timed, dryRun="All"),
        saying=["reportingInstance: Required value", "action: Required value", "reason: Required value"],
    )

    # Lengths are bytes.
    await server.api.create(new_events(namespace), new_event(namespace, note="ä" * 512, reason="ä" * 64), dryRun="All")
    for field, name, limit in (("note", "message", 1024), ("reason", "reason", 128)):
        await invalid(
            server.api.create(new_events(namespace), new_event(namespace, **{field: "ä" * (limit // 2 + 1)})),
            f'Event "new" is invalid: {name}: Invalid value: "": can have at most {limit} characters',
        )

    # The fields of a new event are immutable, and its series can change.
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:02:00.000000Z"}
    await server.api.create(new_events(namespace), new_event(namespace, series=series))
    await invalid(
        server.api.patch(new_events(namespace, "new"), {"note": "other"}),
        'Event "new" is invalid: message: Invalid value: "other": field is immutable',
    )
    patched = await server.api.patch(new_events(namespace, "new"), {"series": {"count": 5}})
    assert patched["series"]["count"] == 5
