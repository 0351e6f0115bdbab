"""Every name stands once, and every reference finds what it means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.rendering.environment import (
    ContainerEnv,
    component_environment,
    constant,
    main_environment,
    merged,
    references,
    user_environment,
)
from gangctl.pathways.result import From, Origin, OriginKind, origins, plain
from tests.pathways.rendering.jobs import components, job, variable
from tests.rows import each

PATH = "spec.controller.template.spec.containers[0]"
TIMEOUT = PathwaysOptions(unreachable_timeout_seconds=60)
FROM_CONFIG = {"name": "ABSL_FLAGS", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}


def main(*env: dict[str, Any], **changes: Any) -> ContainerEnv:
    return main_environment(job(**changes), {"name": "main", "env": list(env)}, PATH)


def written(environment: ContainerEnv | Sequence[From]) -> list[dict[str, Any]]:
    variables = environment.variables if isinstance(environment, ContainerEnv) else environment
    return [plain(each) for each in variables]


def names(environment: ContainerEnv) -> list[str]:
    return [each["name"] for each in written(environment)]


def values(environment: ContainerEnv) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in written(environment)}


def reasons(notices: Iterable[Notice]) -> list[Reason]:
    return [each.reason for each in notices]


def test_the_main_container_gets_four_variables_in_order() -> None:
    assert written(main()) == [
        {
            "name": "PATHWAYS_HEAD",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/coordinator']"}},
        },
        variable("JAX_PLATFORMS", "proxy"),
        variable("XCLOUD_ENVIRONMENT", "GCP"),
        variable("JAX_BACKEND_TARGET", "grpc://$(PATHWAYS_HEAD):29000"),
    ]


def test_a_container_without_env_is_one_with_an_empty_one() -> None:
    container: dict[str, Any] = {"name": "main", "env": None}
    assert written(main_environment(job(), container, PATH)) == written(main())


def test_variables_of_the_user_follow_in_their_order() -> None:
    environment = main(variable("B", "$(PATHWAYS_HEAD)/x"), variable("A", "a=b=c"))
    assert written(environment)[4:] == [variable("B", "$(PATHWAYS_HEAD)/x"), variable("A", "a=b=c")]
    assert environment.notices == ()


@pytest.mark.parametrize("name", ["PATHWAYS_HEAD", "JAX_PLATFORMS", "JAX_BACKEND_TARGET"])
def test_variables_that_connect_to_the_proxy_win_with_a_notice(name: str) -> None:
    environment = main(variable(name, "stale"))
    assert written(environment) == written(main())
    (notice,) = environment.notices
    assert notice.reason is Reason.ENV_OVERRIDDEN
    assert "main" in notice.message
    assert name in notice.message


def test_the_same_value_from_the_user_gives_no_notice() -> None:
    environment = main(variable("JAX_PLATFORMS", "proxy"))
    assert written(environment) == written(main())
    assert environment.notices == ()


def test_one_notice_names_all_that_are_not_used() -> None:
    (notice,) = main(variable("JAX_PLATFORMS", "cpu"), variable("JAX_BACKEND_TARGET", "x")).notices
    assert "JAX_PLATFORMS, JAX_BACKEND_TARGET" in notice.message


def test_other_default_variables_can_be_overridden() -> None:
    environment = main(variable("XCLOUD_ENVIRONMENT", "mine"))
    assert values(environment)["XCLOUD_ENVIRONMENT"] == "mine"
    assert names(environment) == names(main())


@pytest.mark.parametrize("name", ["PATHWAYS_HEAD", "JAX_PLATFORMS", "JAX_BACKEND_TARGET"])
def test_the_user_wins_where_flags_were_written(name: str) -> None:
    environment = main(variable(name, "mine"), user_env_wins=True)
    assert values(environment)[name] == "mine"
    assert names(environment) == names(main())
    assert environment.notices == ()


def test_a_head_of_the_users_own_is_declared_before_what_refers_to_it() -> None:
    environment = main(variable("HOST", "h"), variable("PATHWAYS_HEAD", "$(HOST)"), user_env_wins=True)
    assert names(environment)[:2] == ["HOST", "PATHWAYS_HEAD"]
    assert names(environment).index("PATHWAYS_HEAD") < names(environment).index("JAX_BACKEND_TARGET")


def test_every_variable_has_an_origin() -> None:
    environment = main(variable("XCLOUD_ENVIRONMENT", "mine"), variable("A", "a"))
    found = {plain(each)["name"]: {origin.place for origin in origins(each).values()} for each in environment.variables}
    assert found["JAX_PLATFORMS"] == {"gangctl"}
    assert found["XCLOUD_ENVIRONMENT"] == {f"{PATH}.env[0]"}
    assert found["A"] == {f"{PATH}.env[1]"}


def test_other_containers_get_no_variables_and_each_name_is_unique() -> None:
    log = {"name": "log", "env": [variable("A", "1"), variable("B", "b"), variable("A", "2")]}
    environment = user_environment(job(), log, PATH)
    assert written(environment) == [variable("A", "2"), variable("B", "b")]
    (notice,) = environment.notices
    assert notice.reason is Reason.ENV_OVERRIDDEN
    assert "log" in notice.message
    assert "A is set twice" in notice.message


def test_a_reference_to_a_later_variable_moves_nothing() -> None:
    log = {"name": "log", "env": [variable("A", "$(C)"), variable("B", "b"), variable("C", "c")]}
    assert written(user_environment(job(), log, PATH)) == log["env"]


def test_a_variable_that_extends_its_earlier_value_is_expanded() -> None:
    log = {"name": "log", "env": [variable("A", "1"), variable("A", "$(A):2"), variable("A", "$(A):3:$$(A)")]}
    assert written(user_environment(job(), log, PATH)) == [variable("A", "1:2:3:$$(A)")]


def test_custom_variables_replace_the_defaults_of_a_component() -> None:
    chosen = components(worker={"env": (variable("B", "2"), variable("A", "mine"))})
    ours = [constant("A", "1", "why"), constant("C", "3", "why")]
    (component,) = chosen.values()
    environment = component_environment(job(), "pathways-worker", ours, component)
    assert written(environment) == [variable("A", "mine"), variable("C", "3"), variable("B", "2")]
    assert environment.notices == ()
    assert [each.origin.place for each in environment.variables] == [
        "spec.customComponents[0].customEnv[1]",
        "gangctl",
        "spec.customComponents[0].customEnv[0]",
    ]


def test_the_timeout_is_a_separate_variable() -> None:
    assert values(main(options=TIMEOUT))["ABSL_FLAGS"] == "--pathways_pipe_unreachable_timeout=60s"
    assert "ABSL_FLAGS" not in values(main())


def test_the_timeout_is_appended_to_the_users_flags() -> None:
    environment = main(variable("V", "1"), variable("ABSL_FLAGS", "--v=$(V)"), options=TIMEOUT)
    assert values(environment)["ABSL_FLAGS"] == "--v=$(V) --pathways_pipe_unreachable_timeout=60s"
    assert names(environment).count("ABSL_FLAGS") == 1
    assert names(environment).index("V") < names(environment).index("ABSL_FLAGS")


def test_the_timeout_appended_comes_from_the_option() -> None:
    (last,) = main(variable("ABSL_FLAGS", "--v=1"), options=TIMEOUT).variables[4:]
    found = origins(last)
    assert found["name"].place == f"{PATH}.env[0]"
    assert (found["value"].kind, found["value"].place) == (OriginKind.OPTION, "unreachableTimeoutSeconds")


def test_a_timeout_of_the_user_is_kept() -> None:
    environment = main(variable("ABSL_FLAGS", "--pathways_pipe_unreachable_timeout=5s"), options=TIMEOUT)
    assert values(environment)["ABSL_FLAGS"] == "--pathways_pipe_unreachable_timeout=5s"


def test_flags_from_another_object_are_kept_with_a_notice() -> None:
    environment = main(FROM_CONFIG, options=TIMEOUT)
    assert written(environment)[-1] == FROM_CONFIG
    assert reasons(environment.notices) == [Reason.NO_EFFECT]
    assert "--pathways_pipe_unreachable_timeout=60s" in environment.notices[0].message


@each(
    ("value", "expected"),
    [("$(A)x$(B)", ("A", "B")), ("$$(A)", ()), ("$$$(A)", ("A",)), ("$(A", ()), ("$A", ()), ("", ())],
)
def test_references_are_found(value: str, expected: tuple[str, ...]) -> None:
    assert references(value) == expected


def test_a_long_chain_of_references_is_followed() -> None:
    chain = [variable("N0", "0"), *(variable(f"N{n}", f"$(N{n - 1})") for n in range(1, 3000))]
    environment = main(*chain, variable("JAX_PLATFORMS", "$(N2999)"), user_env_wins=True)
    assert names(environment).index("N2999") < names(environment).index("JAX_PLATFORMS")


OURS = ("PATHWAYS_HEAD", "JAX_PLATFORMS", "XCLOUD_ENVIRONMENT", "JAX_BACKEND_TARGET")
name_of_any = st.sampled_from((*OURS, "A", "B", "C", "ABSL_FLAGS"))
text = st.one_of(
    st.sampled_from(["", "x", "$$(A)"]), st.lists(name_of_any.map(lambda name: f"$({name})"), max_size=2).map("".join)
)
variables = st.lists(st.builds(variable, name_of_any, text), max_size=8)


@settings(max_examples=150, deadline=None)
@given(env=variables, user_wins=st.booleans(), timeout=st.booleans())
def test_names_are_unique_and_the_proxy_is_found(env: list[dict[str, Any]], user_wins: bool, timeout: bool) -> None:
    options = TIMEOUT if timeout else PathwaysOptions()
    found = names(main(*env, user_env_wins=user_wins, options=options))
    assert len(found) == len(set(found))
    assert set(found) == {*OURS, *(each["name"] for each in env), *(["ABSL_FLAGS"] if timeout else [])}
    if not user_wins:
        assert found[0] == "PATHWAYS_HEAD"


@settings(max_examples=150, deadline=None)
@given(first=variables, second=variables)
def test_a_variable_stays_before_its_use(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    origin = Origin(OriginKind.FIELD, "spec")
    ours = list({item["name"]: From(item, origin) for item in first}.values())
    theirs = [From(item, origin) for item in second]
    position = {item["name"]: index for index, item in enumerate(written(merged(ours, theirs)))}
    survivors = {plain(item)["name"]: index for index, item in enumerate([*ours, *theirs])}
    for item in written(merged(ours, theirs)):
        used = {name for name in references(item["value"]) if name in survivors}
        before = {name for name in used if survivors[name] < survivors[item["name"]]}
        assert all(position[name] < position[item["name"]] for name in before)


@settings(max_examples=50, deadline=None)
@given(env=variables)
def test_the_values_of_users_are_only_read(env: list[dict[str, Any]]) -> None:
    before = [dict(each) for each in env]
    main(*env, options=TIMEOUT)
    assert env == before
