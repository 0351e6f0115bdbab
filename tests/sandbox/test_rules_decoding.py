"""What is left of an object that a server has decoded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.quantity import parse_quantity
from gangctl.apiserver.fields import canonical, fields_of, parse
from gangctl.apiserver.minors import MINORS
from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object
from tests.rows import each
from tests.sandbox.asking import create, refused

JOBS = "jobs.batch"


def job(pod: Object | None = None, **spec: object) -> Object:
    containers = [{"name": "c", "image": "i"}]
    return {"template": {"spec": {"restartPolicy": "Never", "containers": containers, **(pod or {})}}, **spec}


async def test_empty_fields_are_dropped() -> None:
    empty = {"nodeSelector": {}, "tolerations": [], "hostNetwork": False, "priority": None, "hostname": ""}
    created = await create(Api(), JOBS, spec=job(empty, completions=0, suspend=False, activeDeadlineSeconds=None))
    assert not empty.keys() & created["spec"]["template"]["spec"].keys()
    assert "activeDeadlineSeconds" not in created["spec"]
    assert (created["spec"]["completions"], created["spec"]["suspend"]) == (0, False)


@each(
    ("spec", "words"),
    [
        (job(parallelism="x"), "string into Go struct field JobSpec.spec.parallelism of type int32"),
        (
            job({"containers": [{"name": 5}]}),
            "number into Go struct field Container.spec.template.spec.containers.name of type string",
        ),
        (job({"nodeSelector": []}), "array into Go struct field PodSpec.spec.template.spec.nodeSelector of type map"),
    ],
    ids=["number", "text", "map"],
)
async def test_a_field_of_the_wrong_type_is_refused_as_by_go(spec: Object, words: str) -> None:
    error = await refused(Api(), JOBS, spec=spec)
    assert error.code == 400
    assert f"json: cannot unmarshal {words}" in error.message


async def test_an_invalid_quantity_is_refused() -> None:
    containers = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "abc"}}}]
    error = await refused(Api(), JOBS, spec=job({"containers": containers}))
    assert error.code == 400
    assert error.message.endswith(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


@each(
    ("written", "stored"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("2000", "2k"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1.6Gi", "1717986918400m"),
        ("0", "0"),
        ("3e3", "3e3"),
        ("1E", "1E"),
    ],
)
def test_quantities_are_written_in_canonical_form(written: str, stored: str) -> None:
    assert canonical(written) == stored


@given(
    st.from_regex(r"[0-9]{1,12}(\.[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi", "e3", "u"]),
)
def test_writing_a_quantity_keeps_its_value(number: str, suffix: str) -> None:
    text = f"{number}{suffix}"
    once = canonical(text)
    assert parse_quantity(once) == parse_quantity(text)
    assert canonical(once) == once


def test_the_table_has_the_fields_of_each_minor() -> None:
    references = {"1.35": {"workloadRef"}, "1.36": {"schedulingGroup"}, "1.37": {"schedulingGroup"}}
    for minor in MINORS:
        fields = fields_of(minor)
        root = fields.root("v1", "Pod")
        assert root is not None
        spec = fields.of(fields.of(root)["spec"].name)
        assert {"workloadRef", "schedulingGroup"} & spec.keys() == references[MINORS[minor].rules]
    assert fields_of("1.35").root("scheduling.k8s.io/v1alpha1", "PodGroup") is None


def test_a_type_expression_is_read() -> None:
    ports = parse("![core.v1.ContainerPort]containerPort,protocol~containerPort")
    assert (ports.form, ports.required, ports.keys, ports.merge_key) == (
        "list",
        True,
        ("containerPort", "protocol"),
        "containerPort",
    )
    assert (parse("{quantity}").go_type, parse("[string]*~").is_set) == ("map[string]resource.Quantity", True)
