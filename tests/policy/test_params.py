"""Which objects ``params`` is."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.policy.variables import ParamsError, name_of, params_of, with_params
from tests.policy.documents import Object, policy, review_of, rule
from tests.policy.reviews import Catalogue, created, loaded
from tests.rows import each


def config(name: str, namespace: str = "ns", **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def limit(name: str) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Limit", "metadata": {"name": name}}


def taking(kind: tuple[str, str] = ("v1", "ConfigMap"), action: str = "Deny", **reference: Any) -> Any:
    api_version, name = kind
    written = {**reference, "parameterNotFoundAction": action}
    return loaded(policy("true", paramKind={"apiVersion": api_version, "kind": name}, paramRef=written))


LIMIT = ("example.com/v1", "Limit")


def names(taker: Any, catalogue: Catalogue) -> list[str]:
    return [name_of(each) for each in params_of(taker, created(), catalogue)]


def test_one_by_name_in_the_namespace_of_the_request() -> None:
    catalogue = Catalogue(config("a"), config("b"), config("a", "other"))
    assert names(taking(name="a"), catalogue) == ["ns/a"]
    assert names(taking(name="a", namespace="other"), catalogue) == ["other/a"]


def test_several_by_labels_in_the_order_of_their_names() -> None:
    catalogue = Catalogue(config("c", x="y"), config("a", x="y"), config("b"), config("d", "other", x="y"))
    assert names(taking(selector={"matchLabels": {"x": "y"}}), catalogue) == ["ns/a", "ns/c"]
    assert names(taking(selector={}), catalogue) == ["ns/a", "ns/b", "ns/c"]


def test_params_of_a_cluster_scoped_kind_are_found() -> None:
    catalogue = Catalogue(limit("a"), cluster=["Limit"])
    assert names(taking(LIMIT, name="a"), catalogue) == ["a"]
    with pytest.raises(ParamsError, match="must not be provided for a cluster-scoped"):
        names(taking(LIMIT, name="a", namespace="ns"), catalogue)


def test_params_of_an_unknown_kind_are_an_error() -> None:
    with pytest.raises(ParamsError, match="not known"):
        names(taking(LIMIT, name="a"), Catalogue())


@each("reference", [{"name": "a"}, {"selector": {}}])
def test_missing_params_follow_the_not_found_action(reference: Object) -> None:
    assert names(taking(action="Allow", **reference), Catalogue()) == []
    with pytest.raises(ParamsError, match="no params found"):
        names(taking(**reference), Catalogue())


def test_namespaced_params_of_a_cluster_scoped_request_are_an_error() -> None:
    review = review_of({"metadata": {"name": "n"}})
    with pytest.raises(ParamsError, match="cluster-scoped resources"):
        params_of(taking(name="a"), review, Catalogue(config("a")))


def test_listed_params_get_their_kind_and_api_version() -> None:
    class Untyped(Catalogue):
        def find(self, *_: Any, **__: Any) -> list[Object]:
            return [{"metadata": {"name": "a"}}]

    (found,) = params_of(taking(name="a"), created(), Untyped())
    assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")


def test_a_review_gets_the_params_of_the_policies_that_match_it() -> None:
    def named(name: str, **more: Any) -> Any:
        reference = {"name": more.pop("of", "a"), "parameterNotFoundAction": "Deny"}
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        return loaded(policy("true", name=name, paramKind=kind, paramRef=reference, **more))

    policies = [
        named("takes"),
        named("misses", of="z"),
        named("elsewhere", matchConstraints={"resourceRules": [rule("DELETE")]}),
        loaded(policy("true", name="none")),
    ]
    review = with_params(created(), policies, Catalogue(config("a")))
    assert {name: [name_of(each) for each in found] for name, found in review.params.items()} == {"takes": ["ns/a"]}
    assert list(review.param_errors) == ["misses"]
