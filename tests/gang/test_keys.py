"""Keys with gangctl's prefix: what follows from the table of them, and those that gangctl does not read."""

from __future__ import annotations

from typing import Any, Final

from gangctl.api import meta
from gangctl.api.meta import KEYS, Key, KeyRole, Place
from gangctl.gang.admission import check_update
from gangctl.gang.config import is_configured
from gangctl.gang.reasons import Reason
from gangctl.gang.resolve import ClusterRules, resolve
from tests.gang.pipeline import read
from tests.jobsets import jobset, rj
from tests.rows import each

PLACED: Final = [(key, place) for key in KEYS for place in key.places if place is not Place.NAMESPACE]


def having(key: Key, place: Place) -> dict[str, Any]:
    """A JobSet whose one key of gangctl is this one."""
    notes = {key.name: "x"}
    if place is Place.JOBSET:
        return jobset("js", rj("w"), annotations=notes)
    return jobset("js", rj("w", annotations=notes))


def test_each_key_with_gangctls_prefix_is_in_the_table() -> None:
    named = {value for value in vars(meta).values() if isinstance(value, str) and value.startswith(meta.PREFIX)}
    assert sorted(named - {meta.PREFIX, meta.API_VERSION}) == sorted(key.name for key in KEYS)


@each(("key", "place"), PLACED)
def test_a_key_is_kept_where_it_belongs(key: Key, place: Place) -> None:
    found = read(having(key, place))
    holder = found if place is Place.JOBSET else found.replicated_jobs[0]
    assert holder.annotations == {key.name: "x"}
    assert found.unread == ()
    assert is_configured(found) is (key.role is KeyRole.CONFIGURATION)


@each(("key", "place"), PLACED)
def test_a_change_of_the_configuration_alone_is_refused(key: Key, place: Place) -> None:
    parent = "" if place is Place.JOBSET else "spec.replicatedJobs[0].template."
    path = f"{parent}metadata.annotations[{key.name}]"
    refused = [path] if key.role is KeyRole.CONFIGURATION else []
    without, there = read(jobset("js", rj("w"))), read(having(key, place))
    assert [error.path for error in check_update(without, there, None)] == refused
    assert [error.path for error in check_update(there, without, None)] == refused


@each("key", KEYS)
def test_a_key_in_a_place_without_meaning_is_known(key: Key) -> None:
    raw = jobset("js", rj("w"))
    raw["metadata"]["labels"] = {key.name: "x"}
    (message,) = messages_of(raw)
    assert message.startswith(f"metadata.labels[{key.name}] has no effect: ")
    assert "knows no such key" not in message


@each("key", [key for key in KEYS if key.role is not KeyRole.WRITTEN and Place.NAMESPACE not in key.places])
def test_the_keys_of_users_are_listed_and_suggested(key: Key) -> None:
    (listed,) = messages_of(jobset("js", rj("w"), annotations={"gangctl.dev/x": ""}))
    assert key.name in listed
    (near,) = messages_of(jobset("js", rj("w"), annotations={f"{key.name}q": ""}))
    assert near.endswith(f"did you mean {key.name}.")


def messages_of(raw: dict[str, Any]) -> list[str]:
    notices = resolve(read(raw), ClusterRules()).notices
    return [notice.message for notice in notices if notice.reason is Reason.UNKNOWN_KEY]


@each(
    ("part", "key", "why"),
    [
        ("annotations", "gangctl.dev/gang-modes", "gangctl knows no such key; did you mean gangctl.dev/gang-mode"),
        ("annotations", "gangctl.dev/gangmode", "gangctl knows no such key; did you mean gangctl.dev/gang-mode"),
        ("annotations", "gangctl.dev/gang-option", "gangctl knows no such key; did you mean gangctl.dev/gang-options"),
        (
            "annotations",
            "gangctl.dev/x",
            "gangctl knows no such key; gangctl reads gangctl.dev/gang-mode, gangctl.dev/gang-options, ",
        ),
        ("labels", "gangctl.dev/gang-mode", "it is an annotation, of the JobSet or of"),
        ("labels", "gangctl.dev/expected-duration", "it is an annotation of the JobSet"),
        (
            "annotations",
            "gangctl.dev/expected-durations",
            "gangctl knows no such key; did you mean gangctl.dev/expected-duration",
        ),
        ("labels", "gangctl.dev/skip", "it is a label of namespaces"),
        ("annotations", "gangctl.dev/gang-ref", "gangctl writes it itself: leave it out"),
    ],
)
def test_a_key_that_means_nothing_on_a_jobset(part: str, key: str, why: str) -> None:
    raw = jobset("js", rj("w"))
    raw["metadata"].setdefault(part, {})[key] = "Gang"
    (message,) = messages_of(raw)
    assert message.startswith(f"metadata.{part}[{key}] has no effect: {why}")


def test_options_belong_on_the_jobset() -> None:
    template = rj("w", mode="Gang")
    template["template"]["metadata"]["annotations"]["gangctl.dev/gang-options"] = "{}"
    (message,) = messages_of(jobset("js", rj("a"), template))
    path = "spec.replicatedJobs[1].template.metadata.annotations[gangctl.dev/gang-options]"
    assert message == f"{path} has no effect: it is an annotation of the JobSet."


@each("part", ["annotations", "labels"])
def test_a_key_on_the_pod_template_has_no_effect(part: str) -> None:
    raw = jobset("js", rj("a"), rj("w"))
    raw["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["metadata"] = {
        part: {"gangctl.dev/gang-mode": "Gang"}
    }
    (message,) = messages_of(raw)
    path = f"spec.replicatedJobs[1].template.spec.template.metadata.{part}[gangctl.dev/gang-mode]"
    assert message.startswith(
        f"{path} has no effect: it is an annotation, of the JobSet or of replicatedJobs[].template."
    )


def test_keys_that_gangctl_reads_or_writes_have_no_notice() -> None:
    raw = jobset("js", rj("w", mode="Gang"), annotations={"gangctl.dev/gang-options": "{}", "example.com/gang": "x"})
    raw["metadata"]["annotations"]["gangctl.dev/pathways-digest"] = "0"
    raw["metadata"]["labels"] = {"gangctl.dev/canary": "true", "gangctl.dev/pathways-job": "js"}
    assert messages_of(raw) == []


@each("text", ["2 hours", "2", "-2h", "0", "", "9" * 70, "9" * 60 + "h"])
def test_an_expected_duration_that_is_none_has_a_notice(text: str) -> None:
    raw = jobset("js", rj("w", mode="Gang"), annotations={"gangctl.dev/expected-duration": text})
    (notice,) = (each for each in resolve(read(raw), ClusterRules()).notices if each.reason is Reason.NO_EFFECT)
    start = "metadata.annotations[gangctl.dev/expected-duration] has no effect: "
    assert notice.message.startswith(start)
    assert notice.message.endswith("is no positive duration, such as 90s, 2h30m or 48h.")
    assert len(notice.message) < 250


def test_an_expected_duration_has_no_notice() -> None:
    raw = jobset("js", rj("w", mode="Gang"), annotations={"gangctl.dev/expected-duration": "1h2m3.5s"})
    assert [each for each in resolve(read(raw), ClusterRules()).notices if each.reason is Reason.NO_EFFECT] == []


def test_of_a_thousand_keys_only_some_are_listed() -> None:
    raw = jobset("js", rj("w"))
    raw["metadata"]["annotations"] = {f"gangctl.dev/{'x' * 300}{number}": "" for number in range(1000)}
    messages = messages_of(raw)
    assert len(messages) == 8
    assert max(map(len, messages)) < 300
    assert not any("x" * 64 in message for message in messages)


def test_an_expected_duration_belongs_on_the_jobset() -> None:
    assert messages_of(jobset("js", rj("a"), annotations={"gangctl.dev/expected-duration": "2h"})) == []


@each(("text", "notices"), [("10m", 0), ("never", 0), ("soon", 1), ("0", 1)])
def test_a_delay_of_evictions_that_is_none_has_a_notice(text: str, notices: int) -> None:
    raw = jobset("js", rj("w", mode="Gang"), annotations={"gangctl.dev/evict-stranded-after": text})
    found = [each for each in resolve(read(raw), ClusterRules()).notices if each.reason is Reason.NO_EFFECT]
    assert len(found) == notices
    assert all("is neither never nor a positive duration, such as 10m." in each.message for each in found)
