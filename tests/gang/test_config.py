"""What a person may write about gangs, in either notation, and what is said about everything else."""

from __future__ import annotations

import json
from typing import Any

from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import Generation
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.config import GangConfig, GangMode, GangOptions, is_configured, read_config, read_options
from tests.gang.pipeline import read, resolved
from tests.jobsets import MODE, OPTIONS, jobset, rj
from tests.rows import each

Raw = dict[str, Any]
OWN = f"metadata.annotations[{MODE}]"
OWN_FIELD = "spec.gangConfig.gangMode"
EACH = f"spec.replicatedJobs[0].template.metadata.annotations[{MODE}]"
EACH_FIELD = "spec.replicatedJobs[0].gangConfig.gangMode"


def written(
    own: str | None = None, own_field: str | None = None, each: str | None = None, each_field: str | None = None
) -> Raw:
    """A JobSet with one ReplicatedJob and modes in up to four places."""
    entry = rj("w", mode=each)
    if each_field is not None:
        entry["gangConfig"] = {"gangMode": each_field}
    raw = jobset("js", entry, mode=own)
    if own_field is not None:
        raw["spec"]["gangConfig"] = {"gangMode": own_field}
    return raw


def config(raw: Raw) -> GangConfig:
    found, errors = read_config(read(raw))
    assert errors == ()
    return found


def errors(raw: Raw) -> list[tuple[str, ErrorKind]]:
    return [(error.path, error.kind) for error in read_config(read(raw))[1]]


@each("mode", ["Off", "Gang"])
def test_both_notations_mean_the_same_on_the_jobset(mode: str) -> None:
    assert config(written(own=mode)) == config(written(own_field=mode)) == config(written(own=mode, own_field=mode))
    assert config(written(own=mode)).jobset == mode


@each("mode", list(GangMode))
def test_both_notations_mean_the_same_on_a_replicated_job(mode: GangMode) -> None:
    assert config(written(each=mode)) == config(written(each_field=mode)) == config(written(each=mode, each_field=mode))
    assert config(written(each=mode)).replicated_jobs == (mode,)


@each("raw", [written(), jobset("js", {**rj("w"), "gangConfig": {}}, gangConfig=None)])
def test_unset_is_not_off(raw: Raw) -> None:
    assert config(raw) == GangConfig(None, (None,))
    assert not config(raw).asks_for_gangs
    assert not is_configured(read(raw))


@each(
    "raw",
    [written(own="Off"), written(own_field=""), written(each="?"), written(each_field="Off"), jobset("js", options="")],
)
def test_a_mode_counts_as_configured_with_any_value(raw: Raw) -> None:
    assert is_configured(read(raw))


def test_notations_that_disagree() -> None:
    assert errors(written(own="Gang", own_field="Off")) == [(OWN, ErrorKind.INVALID)]
    assert errors(written(each="Gang", each_field="ReplicatedGang")) == [(EACH, ErrorKind.INVALID)]
    (error,) = read_config(read(written(each="Gang", each_field="Off")))[1]
    assert EACH_FIELD in error.detail
    assert '"Off"' in error.detail


@each("value", ["", "gang", "GANG", " Gang", "Gang ", "scheduleAtOnce", "true", "Gänge", "x" * 9999])
def test_modes_are_exact(value: str) -> None:
    assert errors(written(own=value)) == [(OWN, ErrorKind.NOT_SUPPORTED)]
    assert errors(written(own_field=value)) == [(OWN_FIELD, ErrorKind.NOT_SUPPORTED)]
    assert errors(written(each=value)) == [(EACH, ErrorKind.NOT_SUPPORTED)]
    assert errors(written(each_field=value)) == [(EACH_FIELD, ErrorKind.NOT_SUPPORTED)]
    (error,) = read_config(read(written(each=value)))[1]
    assert '"Off", "Gang", "ReplicatedGang"' in error.detail
    assert len(error.detail) < 200


def test_a_replicated_gang_belongs_on_a_replicated_job() -> None:
    (error,) = read_config(read(written(own_field="ReplicatedGang")))[1]
    assert (error.path, error.kind) == (OWN_FIELD, ErrorKind.NOT_SUPPORTED)
    assert "replicatedJobs[].template.metadata.annotations" in error.detail


@each("mode", ["Gang", "ReplicatedGang"])
def test_both_levels_at_once_name_both_places(mode: str) -> None:
    for raw, path, above in (
        (written(own="Gang", each=mode), EACH, OWN),
        (written(own="Gang", each_field=mode), EACH_FIELD, OWN),
        (written(own_field="Gang", each=mode), EACH, OWN_FIELD),
    ):
        (error,) = read_config(read(raw))[1]
        assert (error.path, error.kind) == (path, ErrorKind.FORBIDDEN)
        assert above in error.detail


def test_every_mistake_is_reported_at_once() -> None:
    raw = jobset("js", rj("a", mode="x"), rj("b", mode="Gang"), mode="y", options='{"a":1,"b":2}')
    places = [path for path, _ in errors(raw)]
    assert len(places) == 4
    assert places[0] == OWN


@each(
    ("raw", "path"),
    [
        (jobset("js", annotations={MODE: True}), OWN),  # type: ignore[dict-item]
        (jobset("js", annotations={OPTIONS: {}}), f"metadata.annotations[{OPTIONS}]"),  # type: ignore[dict-item]
        (jobset("js", gangConfig="Gang"), "spec.gangConfig"),
        (jobset("js", gangConfig={"gangMode": 1}), OWN_FIELD),
        (jobset("js", {"name": "w", "gangConfig": []}), "spec.replicatedJobs[0].gangConfig"),
    ],
)
def test_wrong_types_are_found_on_reading_and_mean_unset(raw: Raw, path: str) -> None:
    projection, malformed = read_jobset(raw)
    assert [(error.path, error.kind) for error in malformed] == [(path, ErrorKind.TYPE_INVALID)]
    assert not read_config(projection)[0].asks_for_gangs


def options(text: str) -> tuple[GangOptions, list[FieldError]]:
    found: list[FieldError] = []
    return read_options(text, "p", found), found


def test_options_and_their_defaults() -> None:
    assert options("{}") == (GangOptions(), [])
    text = '{"topologyKey":"example.com/rack","disruption":"all","sequenced":"reject","composite":true}'
    found, mistakes = options(text)
    assert mistakes == []
    assert (found.topology_key, found.disruption, found.sequenced, found.composite) == (
        *("example.com/rack", "all", "reject"),
        True,
    )
    assert options('{"topologyKey":null,"disruption":null}') == (GangOptions(), [])


@each(
    ("text", "path", "kind"),
    [
        ("", "p", ErrorKind.INVALID),
        ("{", "p", ErrorKind.INVALID),
        ("null", "p", ErrorKind.INVALID),
        ("[]", "p", ErrorKind.INVALID),
        ('"Gang"', "p", ErrorKind.INVALID),
        ("[" * 99999, "p", ErrorKind.INVALID),
        ('{"composite":1}', "p.composite", ErrorKind.INVALID),
        ('{"composite":"true"}', "p.composite", ErrorKind.INVALID),
        ('{"disruption":"Single"}', "p.disruption", ErrorKind.NOT_SUPPORTED),
        ('{"sequenced":null}', "p.sequenced", ErrorKind.NOT_SUPPORTED),
        ('{"sequenced":{"a":1}}', "p.sequenced", ErrorKind.NOT_SUPPORTED),
        ('{"topology_key":"a"}', "p.topology_key", ErrorKind.FORBIDDEN),
        ('{"minCount":1}', "p.minCount", ErrorKind.FORBIDDEN),
        ('{"topologyKey":7}', "p.topologyKey", ErrorKind.INVALID),
    ],
)
def test_options_that_are_refused(text: str, path: str, kind: ErrorKind) -> None:
    found, mistakes = options(text)
    assert found == GangOptions()
    assert [(error.path, error.kind) for error in mistakes] == [(path, kind)]
    assert "topologyKey, disruption, sequenced, composite" in mistakes[0].detail
    assert ("unknown option" in mistakes[0].detail) == (kind is ErrorKind.FORBIDDEN)


@each("key", ["zone", "example.com/rack", "a.b-c.d/e_f.g-H", "x" * 63, f"{'a.' * 126}a/{'x' * 63}"])
def test_topology_keys(key: str) -> None:
    assert options(json.dumps({"topologyKey": key}))[0].topology_key == key


@each(
    "key",
    ["", "/", "a/", "/a", "a/b/c", "-a", "a-", "A.com/x", "a..b/c", "a.-b/c", ".a/b", "x" * 64, "a\n", "ä", "a b"],
)
def test_topology_keys_that_no_node_can_have(key: str) -> None:
    _, mistakes = options(json.dumps({"topologyKey": key}))
    assert [(error.path, error.kind) for error in mistakes] == [("p.topologyKey", ErrorKind.INVALID)]


def test_options_are_read_even_where_no_gang_is_asked_for() -> None:
    assert errors(jobset("js", rj("w"), options='{"a":1}')) == [
        (f"metadata.annotations[{OPTIONS}].a", ErrorKind.FORBIDDEN)
    ]


@each("option", ["topologyKey", "disruption"])
def test_options_that_a_generation_cannot_express_are_refused(option: str) -> None:
    raw = jobset("js", rj("w"), mode="Gang", options=json.dumps({option: "single"}))
    (error,) = resolved(raw, Generation.V1ALPHA1).errors
    assert (error.path, error.kind) == (f"metadata.annotations[{OPTIONS}].{option}", ErrorKind.FORBIDDEN)
    assert "1.35" in error.detail
    assert resolved(raw, Generation.V1ALPHA2).errors == resolved(raw, Generation.V1BETA1).errors == ()
