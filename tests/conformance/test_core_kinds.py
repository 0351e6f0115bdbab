"""ConfigMaps, Secrets, Leases and Events: what each kind demands of itself."""

import base64

import pytest

from tests.conformance.answers import refused
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, lease, leases, names_of, secret, secrets
from tests.controlplane.api import Object, path_of

IMMUTABLE = "Forbidden: field is immutable when `immutable` is set"


def text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        pytest.param({"data": {"k": "w"}}, "data", id="data"),
        pytest.param({"binaryData": {"x": "aGk="}}, "binaryData", id="binary-data"),
        pytest.param({"immutable": False}, "immutable", id="unset"),
        pytest.param({"immutable": None}, "immutable", id="removed"),
    ],
)
async def test_an_immutable_configmap_stays_as_it_is(server: Server, namespace: str, patch: Object, field: str) -> None:
    await server.api.create(configmaps(namespace), {**configmap("a", {"k": "v"}), "immutable": True})
    await refused(
        server.api.patch(configmaps(namespace, "a"), patch),
        422,
        "Invalid",
        f'ConfigMap "a" is invalid: {field}: {IMMUTABLE}',
        causes=[("FieldValueForbidden", field)],
    )


async def test_an_immutable_configmap_may_be_labelled(server: Server, namespace: str) -> None:
    await server.api.create(configmaps(namespace), {**configmap("a", {"k": "v"}), "immutable": True})
    patched = await server.api.patch(configmaps(namespace, "a"), {"metadata": {"labels": {"l": "1"}}})
    assert patched["metadata"]["labels"] == {"l": "1"}


async def test_keys_of_a_configmap_are_file_names(server: Server, namespace: str) -> None:
    await refused(
        server.api.create(configmaps(namespace), configmap("a", {"bad key": "v"})),
        422,
        "Invalid",
        saying='ConfigMap "a" is invalid: data[bad key]: Invalid value: "bad key": a valid config key must consist of',
        causes=[("FieldValueInvalid", "data[bad key]")],
    )


async def test_a_key_is_text_or_binary(server: Server, namespace: str) -> None:
    await refused(
        server.api.create(configmaps(namespace), {**configmap("a", {"k": "v"}), "binaryData": {"k": "aGk="}}),
        422,
        "Invalid",
        'ConfigMap "a" is invalid: data[k]: Invalid value: "k": duplicate of key present in binaryData',
    )


async def test_a_configmap_has_at_most_a_megabyte(server: Server, namespace: str) -> None:
    await refused(
        server.api.create(configmaps(namespace), configmap("a", {"k": "x" * (1024 * 1024 + 1)})),
        422,
        "Invalid",
        'ConfigMap "a" is invalid: []: Too long: may not be more than 1048576 bytes',
    )


async def test_a_secret_takes_text_and_gives_bytes(server: Server, namespace: str) -> None:
    created = await server.api.create(
        secrets(namespace), secret("a", stringData={"k": "v", "j": "w"}, data={"j": text("lost"), "i": text("u")})
    )
    assert created["data"] == {"i": text("u"), "j": text("w"), "k": text("v")}
    assert "stringData" not in created
    assert created["type"] == "Opaque"


async def test_text_is_laid_over_the_bytes_of_a_secret(server: Server, namespace: str) -> None:
    await server.api.create(secrets(namespace), secret("a", data={"k": text("v"), "j": text("w")}))
    patched = await server.api.patch(secrets(namespace, "a"), {"stringData": {"j": "new"}})
    assert patched["data"] == {"k": text("v"), "j": text("new")}
    assert "stringData" not in patched


async def test_the_bytes_of_a_secret_are_base64(server: Server, namespace: str) -> None:
    await refused(
        server.api.create(secrets(namespace), secret("a", data={"k": "not base64!"})),
        400,
        "BadRequest",
        'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 3',
    )


async def test_the_type_of_a_secret_stays(server: Server, namespace: str) -> None:
    await server.api.create(secrets(namespace), secret("a"))
    await refused(
        server.api.patch(secrets(namespace, "a"), {"type": "example.com/other"}),
        422,
        "Invalid",
        'Secret "a" is invalid: type: Invalid value: "example.com/other": field is immutable',
    )


async def test_a_secret_of_a_certificate_has_both_halves(server: Server, namespace: str) -> None:
    await refused(
        server.api.create(secrets(namespace), secret("a", type="kubernetes.io/tls")),
        422,
        "Invalid",
        'Secret "a" is invalid: [data[tls.crt]: Required value, data[tls.key]: Required value]',
    )


async def test_a_secret_may_be_immutable(server: Server, namespace: str) -> None:
    await server.api.create(secrets(namespace), secret("a", data={"k": text("v")}, immutable=True))
    await refused(
        server.api.patch(secrets(namespace, "a"), {"stringData": {"k": "w"}}),
        422,
        "Invalid",
        f'Secret "a" is invalid: data: {IMMUTABLE}',
    )


async def test_a_lease_is_kept_as_it_was_written(server: Server, namespace: str) -> None:
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


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param(
            {"leaseDurationSeconds": 0},
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            id="duration",
        ),
        pytest.param(
            {"leaseTransitions": -1},
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            id="transitions",
        ),
    ],
)
async def test_a_lease_is_validated(server: Server, namespace: str, spec: Object, words: str) -> None:
    await refused(
        server.api.create(leases(namespace), {**lease("a"), "spec": spec}),
        422,
        "Invalid",
        f'Lease.coordination.k8s.io "a" is invalid: {words}',
    )


async def test_times_of_a_lease_have_microseconds(server: Server, namespace: str) -> None:
    await refused(
        server.api.create(leases(namespace), {**lease("a"), "spec": {"renewTime": "2026-01-01T00:00:00Z"}}),
        400,
        "BadRequest",
        saying='Lease in version "v1" cannot be handled as a Lease: parsing time "2026-01-01T00:00:00Z"',
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


async def test_an_old_event_is_read_as_a_new_one(server: Server, namespace: str) -> None:
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


async def test_a_new_event_is_read_as_an_old_one(server: Server, namespace: str) -> None:
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


async def test_events_are_selected_by_what_they_are_about(server: Server, namespace: str) -> None:
    await server.api.create(new_events(namespace), new_event(namespace))
    await server.api.create(
        new_events(namespace), new_event(namespace, "other", regarding={**subject(namespace), "name": "b"})
    )
    for path, field in ((old_events(namespace), "involvedObject"), (new_events(namespace), "regarding")):
        assert names_of(await server.api.list(path, fieldSelector=f"{field}.name=a,type=Warning")) == ["new"]
    await refused(
        server.api.list(new_events(namespace), fieldSelector="involvedObject.name=a"),
        400,
        "BadRequest",
        "field label not supported: involvedObject.name",
    )


async def test_a_new_event_has_a_time(server: Server, namespace: str) -> None:
    body = new_event(namespace)
    del body["eventTime"]
    await refused(
        server.api.create(new_events(namespace), body),
        422,
        "Invalid",
        'Event "new" is invalid: eventTime: Required value',
    )


async def test_an_event_is_where_its_subject_is(server: Server, namespace: str) -> None:
    await refused(
        server.api.create(old_events(namespace), {"metadata": {"name": "a"}, "involvedObject": {"namespace": "other"}}),
        422,
        "Invalid",
        'Event "a" is invalid: involvedObject.namespace: Invalid value: "other": does not match event.namespace',
    )


async def test_what_a_new_event_says_stays_and_its_series_goes_on(server: Server, namespace: str) -> None:
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:02:00.000000Z"}
    await server.api.create(new_events(namespace), new_event(namespace, series=series))
    await refused(
        server.api.patch(new_events(namespace, "new"), {"note": "other"}),
        422,
        "Invalid",
        'Event "new" is invalid: message: Invalid value: "other": field is immutable',
    )
    patched = await server.api.patch(new_events(namespace, "new"), {"series": {"count": 5}})
    assert patched["series"]["count"] == 5
