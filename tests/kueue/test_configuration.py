"""Kueue's configuration: what is read of it, and that nothing unread passes for known."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from gangctl.kueue.blocked import selects
from gangctl.kueue.configuration import (
    STRATEGIES,
    KueueConfiguration,
    PodsReady,
    Transformation,
    read_configuration,
)
from gangctl.kueue.objects import SelectorTerm
from tests.rows import each
from tests.strategies import PROPERTY, hostile_json

SHIPPED = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health:
  healthProbeBindAddress: :8081
controller:
  groupKindConcurrency:
    Job.batch: 5
#waitForPodsReady:
#  timeout: 5m
integrations:
  frameworks:
  - "batch/job"
  - "jobset.x-k8s.io/jobset"
"""

FULL = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
managedJobsNamespaceSelector:
  matchLabels: {team: a}
  matchExpressions:
  - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}
waitForPodsReady:
  timeout: 5m30s
multiKueue: {origin: here}
resources:
  quotaCheckStrategy: IgnoreUndeclared
  excludeResourcePrefixes: [example.com/]
  transformations:
  - input: nvidia.com/mig-4g.5gb
    strategy: Replace
    outputs: {example.com/credits: 0.5, memory: 5Gi, cpu: -1}
  - input: cores
    multiplyBy: gpu
  deviceClassMappings:
  - {name: gpu, deviceClassNames: [gpu.example.com]}
featureGates: {TopologyAwareScheduling: false}
"""


def written(**fields: Any) -> str:
    return json.dumps({"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **fields})


def test_the_shipped_configuration_has_the_defaults() -> None:
    assert read_configuration(SHIPPED) == KueueConfiguration(frameworks=("batch/job", "jobset.x-k8s.io/jobset"))
    assert read_configuration(written()) == KueueConfiguration()


@each(("fields", "own"), [({}, "kueue-system"), ({"namespace": "queues"}, "queues")])
def test_by_default_kube_system_and_the_namespace_of_kueue_are_not_managed(fields: dict[str, str], own: str) -> None:
    found = read_configuration(written(**fields)).managed_namespaces
    assert found is not None
    managed = {name for name in ("kube-system", own, "team") if selects(found, {"kubernetes.io/metadata.name": name})}
    assert managed == {"team"}
    assert selects(found, {})
    assert read_configuration(None).managed_namespaces is None
    assert read_configuration(written(managedJobsNamespaceSelector={})).managed_namespaces == ()


def test_every_field_of_the_configuration_is_read() -> None:
    found = read_configuration(FULL)
    assert found == KueueConfiguration(
        exclude_prefixes=("example.com/",),
        transformations=(
            Transformation(
                "nvidia.com/mig-4g.5gb",
                keep=False,
                outputs={"example.com/credits": Fraction(1, 2), "memory": Fraction(5 * 2**30), "cpu": Fraction(-1)},
            ),
            Transformation("cores", multiply_by="gpu"),
        ),
        quota_check="IgnoreUndeclared",
        managed_namespaces=(
            SelectorTerm("team", "In", ("a",)),
            SelectorTerm("kubernetes.io/metadata.name", "NotIn", ("kube-system",)),
        ),
        wait_for_pods_ready=PodsReady(on=True, timeout=330),
        dra=True,
        gates={"TopologyAwareScheduling": False},
    )
    assert not found.gate("TopologyAwareScheduling", default=True)
    assert found.gate("AdmissionGatedBy", default=True)


class TestPodsReady:
    @each(
        ("fields", "ready"),
        [
            ({}, PodsReady(on=None)),
            ({"waitForPodsReady": None}, PodsReady(on=None)),
            ({"waitForPodsReady": {}}, PodsReady(on=True)),
            ({"waitForPodsReady": {"blockAdmission": True}}, PodsReady(on=True, blocks=True)),
            ({"waitForPodsReady": {"timeout": "0s"}}, PodsReady(on=True, timeout=1800)),
            ({"waitForPodsReady": {"timeout": "1.5h1m1500ms1ns"}}, PodsReady(on=True, timeout=5462)),
            (
                {"waitForPodsReady": {"timeout": "10m", "recoveryTimeout": "3m"}},
                PodsReady(on=True, timeout=600, recovery=180),
            ),
            ({"waitForPodsReady": {"recoveryTimeout": "0s"}}, PodsReady(on=True, recovery=0)),
            ({"waitForPodsReady": {"requeuingStrategy": {"timestamp": "Creation"}}}, PodsReady(True, by_creation=True)),
            ({"waitForPodsReady": {"requeuingStrategy": {"timestamp": "Eviction"}}}, PodsReady(on=True)),
            ({"waitForPodsReady": {"requeuingStrategy": None}}, PodsReady(on=True)),
            ({"featureGates": {"DisableWaitForPodsReady": True}}, PodsReady(on=False)),
            (
                {"apiVersion": "config.kueue.x-k8s.io/v1beta1", "waitForPodsReady": {"enable": False}},
                PodsReady(on=False),
            ),
            (
                {"apiVersion": "config.kueue.x-k8s.io/v1beta1", "waitForPodsReady": {"enable": True}},
                PodsReady(on=True, timeout=300, blocks=True),
            ),
            ({"apiVersion": "config.kueue.x-k8s.io/v1beta1"}, PodsReady(on=False)),
            (
                {
                    "apiVersion": "config.kueue.x-k8s.io/v1beta1",
                    "waitForPodsReady": {"enable": True, "timeout": "10m", "blockAdmission": False},
                },
                PodsReady(on=True, timeout=600),
            ),
            (
                {"apiVersion": "config.kueue.x-k8s.io/v1beta1", "waitForPodsReady": {"timeout": "5m"}},
                PodsReady(on=False),
            ),
        ],
    )
    def test_wait_for_pods_ready_is_read(self, fields: dict[str, Any], ready: PodsReady) -> None:
        assert read_configuration(written(**fields)).wait_for_pods_ready == ready


@each(
    ("text", "why"),
    [
        (None, "was not found"),
        ("", "one Configuration is wanted, there are 0"),
        ("a: [", "controller_manager_config.yaml:1:"),
        ("- a", "not an object"),
        (f"{SHIPPED}---\n{SHIPPED}", "there are 2"),
        ("apiVersion: v1\nkind: ConfigMap\n", "no Configuration of config.kueue.x-k8s.io"),
        ("apiVersion: 1\nkind: Configuration\n", "no Configuration of config.kueue.x-k8s.io"),
        (written(resources=[]), "resources is no object"),
        (written(resources={"excludeResourcePrefixes": "a"}), "excludeResourcePrefixes is no list of texts"),
        (written(resources={"transformations": {}}), "transformations is no list"),
        (written(resources={"transformations": [{}]}), "name of a resource"),
        (written(resources={"transformations": [{"input": "a", "strategy": ["x"]}]}), "which gangctl does not know"),
        (written(resources={"transformations": [{"input": "a", "outputs": []}]}), "no quantities by resource"),
        (written(resources={"transformations": [{"input": "a", "outputs": {"b": "?"}}]}), 'is no quantity: "?"'),
        (
            written(resources={"transformations": [{"input": "a", "outputs": {"b": []}}]}),
            "is no quantity: a list",
        ),
        (written(resources={"quotaCheckStrategy": "Odd"}), '"Odd", which gangctl does not know'),
        (written(managedJobsNamespaceSelector=[]), "no selector of labels"),
        (written(waitForPodsReady={"timeout": 5}), "no duration such as 5m"),
        (written(featureGates={"A": "true"}), "true or false"),
        (written(integrations={"frameworks": [1]}), "integrations.frameworks is no list of texts"),
    ],
)
def test_an_unreadable_configuration_is_unknown(text: str | None, why: str) -> None:
    found = read_configuration(text)
    assert not found.known
    assert why in found.unreadable
    assert found == KueueConfiguration(known=False, unreadable=found.unreadable, managed_namespaces=None)


sections = st.fixed_dictionaries(
    {"apiVersion": st.just("config.kueue.x-k8s.io/v1beta2"), "kind": st.just("Configuration")},
    optional={
        "resources": st.one_of(
            hostile_json,
            st.fixed_dictionaries(
                {},
                optional={
                    "transformations": st.lists(
                        st.fixed_dictionaries(
                            {"input": st.one_of(st.just("a"), hostile_json)},
                            optional={"outputs": hostile_json, "strategy": hostile_json, "multiplyBy": hostile_json},
                        )
                    ),
                    "quotaCheckStrategy": hostile_json,
                    "deviceClassMappings": hostile_json,
                },
            ),
        ),
        "waitForPodsReady": st.one_of(hostile_json, st.fixed_dictionaries({"timeout": st.text("0123.hms")})),
        "featureGates": hostile_json,
        "integrations": hostile_json,
        "managedJobsNamespaceSelector": hostile_json,
    },
)


@PROPERTY
@given(st.one_of(st.text(), sections.map(json.dumps)))
def test_any_text_is_a_configuration_or_has_an_error(text: str) -> None:
    found = read_configuration(text)
    assert found.known is (found.unreadable == "")


OLD: Final = {"apiVersion": "config.kueue.x-k8s.io/v1beta1"}


@each(
    ("fields", "strategies"),
    [
        ({}, None),
        ({"fairSharing": {}}, STRATEGIES),
        ({"fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]}}, ("LessThanInitialShare",)),
        ({**OLD, "fairSharing": {}}, None),
        ({**OLD, "fairSharing": {"enable": True}}, STRATEGIES),
    ],
)
def test_fair_sharing_is_read_with_its_strategies(fields: dict[str, Any], strategies: tuple[str, ...] | None) -> None:
    assert read_configuration(written(**fields)).fair_sharing == strategies
