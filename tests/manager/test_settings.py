"""Settings: flags over file over defaults, and one clear error for what cannot be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import gangctl
from gangctl.cli.controller import controller
from gangctl.cli.program import program
from gangctl.errors import ConfigError
from gangctl.manager.settings import ControllerSettings, load_settings, parse_selector, split_address
from gangctl.pathways.options import Startup
from tests.rows import each


def test_a_flag_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    file = tmp_path / "gangctl.yaml"
    file.write_text("workers: 3\nlog-level: debug\nleader-elect: false\n")
    settings = load_settings({"workers": 5, "log_level": None, "gang_scheduler": ()}, str(file))
    assert (settings.workers, settings.log_level, settings.leader_elect) == (5, "debug", False)
    assert settings.gang_scheduler == ("default-scheduler",)


@each(
    ("flags", "words"),
    [
        ({"webhook_url": "http://127.0.0.1:9443"}, ["webhook-url", "https://HOST:PORT"]),
        ({"metrics_bind_address": "8080"}, ["metrics-bind-address", "HOST:PORT"]),
        ({"webhook_url": "https://host:99999"}, ["webhook-url", "https://HOST:PORT"]),
        ({"webhook_url": "https://host:abc"}, ["webhook-url", "https://HOST:PORT"]),
        ({"webhook_url": "https://host:0"}, ["webhook-url", "https://HOST:PORT"]),
        ({"namespace_selector": "a ~ b"}, ["namespace-selector", "found '~', expected: in, notin"]),
        ({"namespace_selector": "!team=ml"}, ["namespace-selector", "found '=', expected: ','"]),
        ({"namespace_selector": "team in (b/c)"}, ["namespace-selector", "b/c"]),
        ({"namespace_selector": "tier>1"}, ["namespace-selector", "> and <"]),
        ({"workers": 0}, ["workers", "greater than or equal to 1"]),
        *(
            ({name: seconds}, [name.replace("_", "-"), "less than or equal to 2147483647"])
            for name in (
                *("cert_lifetime", "ca_lifetime", "lease_duration", "shutdown_delay", "policy_scan_period"),
                "discovery_period",
            )
            for seconds in (1e12, float("inf"))
        ),
        ({"evict_stranded": True, "evict_stranded_after": "inf"}, ["evict-stranded-after", "less than or equal to"]),
        ({"ca_lifetime": 60}, ["cert-lifetime", "ca-lifetime"]),
        *(
            ({name: text}, [name.replace("_", "-"), f'"{text}" is not a name'])
            for name in ("own_namespace", "webhook_service", "metrics_service", "kueue_namespace")
            for text in ("Kueue_System", "a/b")
        ),
        ({"webhook_service": ""}, ["webhook-service", "at least 1 character"]),
        ({"metrics_service": ""}, ["metrics-service", "at least 1 character"]),
        ({"kueue": "off", "kueue_check": True}, ["kueue-check", "kueue off"]),
        ({"pathways_options": "{}"}, ["pathways-options has no effect without pathways"]),
        ({"pathways": True, "pathways_options": "{"}, ["pathways-options", "must be a JSON object such as"]),
        ({"pathways": True, "pathways_options": "[" * 99999}, ["pathways-options", "must be a JSON object such as"]),
        ({"pathways": True, "pathways_options": "[]"}, ["pathways-options", "dictionary"]),
        ({"pathways": True, "pathways_options": '{"startUp": 1}'}, ["pathways-options.startUp", "no such setting"]),
        ({"pathways": True, "pathways_options": '{"subdomain": "p"}'}, ['only "auto"', "one Service"]),
        ({"pathways": True, "pathways_options": '{"startup": "Now"}'}, ["pathways-options.startup", "'DependsOn'"]),
    ],
)
def test_wrong_flags_are_named_with_what_is_allowed(flags: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(flags, None)
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize("name", ["readiness", "kueue", "policies"])
def test_off_is_accepted_in_a_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "gangctl.yaml"
    file.write_text(f"{name}: off\n")
    assert getattr(load_settings({}, str(file)), name) == "off"


def test_options_of_pathways_are_text_in_a_flag_and_a_mapping_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "gangctl.yaml"
    file.write_text("pathways: true\npathways-options: {startup: DependsOn, ttlSecondsAfterFinished: 60}\n")
    found = load_settings({}, str(file)).pathways_options
    flag = '{"startup": "DependsOn", "ttlSecondsAfterFinished": 60}'
    assert load_settings({"pathways": True, "pathways_options": flag}, None).pathways_options == found
    assert found is not None
    assert found.startup is Startup.DEPENDS_ON
    (flagged,) = [each for each in controller.params if each.name == "pathways_options"]
    assert flagged.type.name == "text"


@each(
    ("name", "flags"),
    [("leader-elected", {}), ("leader_elect", {}), ("leader_elect", {"leader_elect": True})],
)
def test_an_unknown_key_in_the_file_is_refused_with_its_name(name: str, flags: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "gangctl.yaml"
    file.write_text(f"{name}: true\n")
    with pytest.raises(ConfigError, match=f"{name}: there is no such setting; did you mean leader-elect"):
        load_settings(flags, str(file))


def test_one_of_several_replicas_must_not_unregister_the_webhooks() -> None:
    with pytest.raises(ConfigError, match="unregister-on-exit with leader-elect: the replica that ends"):
        load_settings({"unregister_on_exit": True}, None)
    assert load_settings({"unregister_on_exit": True, "leader_elect": False}, None).unregister_on_exit


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"/nowhere/gangctl\.yaml"):
        load_settings({}, "/nowhere/gangctl.yaml")


@each(
    ("url", "bind", "listener"),
    [
        (None, None, ("", 9443)),
        ("https://127.0.0.1:9443", None, ("127.0.0.1", 9443)),
        ("https://localhost:7443", None, ("127.0.0.1", 7443)),
        ("https://gangctl.example.com", None, ("", 443)),
        ("https://gangctl.example.com", "127.0.0.1:1", ("127.0.0.1", 1)),
        (None, "[::1]:9443", ("::1", 9443)),
    ],
)
def test_the_listen_address_of_the_webhooks_is_read(
    url: str | None, bind: str | None, listener: tuple[str, int]
) -> None:
    settings = ControllerSettings(webhook_url=url, webhook_bind_address=bind)
    assert settings.webhook_listener() == listener


def test_the_certificate_covers_the_address_of_the_webhooks() -> None:
    assert ControllerSettings(webhook_url="https://127.0.0.1:1").certificate_hosts("ns") == ("127.0.0.1",)
    assert "gangctl-webhook.ns.svc" in ControllerSettings().certificate_hosts("ns")


@each(
    ("text", "expressions"),
    [
        ("team=ml", [{"key": "team", "operator": "In", "values": ["ml"]}]),
        ("team!=ml", [{"key": "team", "operator": "NotIn", "values": ["ml"]}]),
        (
            "tier in (gold, silver),!legacy",
            [
                {"key": "tier", "operator": "In", "values": ["gold", "silver"]},
                {"key": "legacy", "operator": "DoesNotExist"},
            ],
        ),
        ("example.com/gangs", [{"key": "example.com/gangs", "operator": "Exists"}]),
        ("tier notin (bronze)", [{"key": "tier", "operator": "NotIn", "values": ["bronze"]}]),
    ],
)
def test_namespace_selectors_are_parsed(text: str, expressions: list[dict[str, Any]]) -> None:
    assert parse_selector(text) == expressions


def test_addresses_are_parsed() -> None:
    assert split_address(":8080") == ("", 8080)
    for address in ("127.0.0.1:port", ":\u00b2"):
        with pytest.raises(ValueError, match="HOST:PORT"):
            split_address(address)


@each(
    ("arguments", "value"),
    [(["--kueue-check"], True), (["--kueue-check=true"], True), (["--kueue-check=false"], False), ([], None)],
)
def test_a_boolean_flag_needs_no_value(arguments: list[str], value: bool | None) -> None:
    context = controller.make_context("controller", [*arguments, "--workers", "3"], **program.context_settings)
    assert context.params["kueue_check"] is value


def test_every_setting_is_used() -> None:
    """A field alone is a flag without an effect."""
    package = Path(gangctl.__file__).parent
    code = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    used = {*re.findall(r"settings\.(\w+)", code), *re.findall(r"self\.(\w+)", code)}
    assert ControllerSettings.model_fields.keys() - used == set()
