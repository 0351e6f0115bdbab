"""Errors of a rendered JobSet, told at the fields that a person wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cli.pathways.translation import Translation, translate
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.resolve import ClusterRules
from gangctl.pathways.origins import Origin, OriginKind
from gangctl.pathways.problems import InvalidReason
from gangctl.pathways.result import Rendering
from tests.pathways.samples import annotated, pathways_job

OPTIONS = "metadata.annotations[gangctl.dev/gang-options]"


def told(path: str, **origins: tuple[OriginKind, str]) -> str:
    """An error at ``path`` of a JobSet with these origins, by leaf; ``__`` stands for a dot."""
    known = {leaf.replace("__", "."): Origin(*origin) for leaf, origin in origins.items()}
    rendering = Rendering({}, known, (), {}, "")
    (problem,) = Translation((), (), rendering=rendering).at_source([FieldError(path, ErrorKind.INVALID, "is wrong")])
    assert problem.reason is InvalidReason.INVALID_JOBSET
    return str(problem.error)


FIELD, FLAG, RULE, OPTION = OriginKind.FIELD, OriginKind.FLAG, OriginKind.RULE, OriginKind.OPTION


class TestPlaces:
    def test_a_field_where_it_was_written(self) -> None:
        assert told("metadata.name", metadata__name=(FIELD, "metadata.name")) == "metadata.name: is wrong"
        assert told("a.b", a__b=(FIELD, "spec.c")) == "spec.c: is wrong (the JobSet's a.b)"

    def test_a_flag(self) -> None:
        assert told("a", a=(FLAG, "--num-slices")) == "--num-slices: is wrong (the JobSet's a)"

    def test_what_is_in_a_field_that_is_one_value(self) -> None:
        assert told("a.b[0]", a__b=(FIELD, "spec.c")) == "spec.c: is wrong (the JobSet's a.b[0])"

    def test_what_is_not_there_is_told_of_the_nearest_around_it(self) -> None:
        assert told("a.missing", a__b=(FIELD, "spec.c")) == "spec.c: is wrong (the JobSet's a.missing)"

    def test_several_fields_are_told_of_the_one_around_them(self) -> None:
        both = {"a__x": (FIELD, "spec.c[0].x"), "a__y": (FIELD, "spec.c[0].z")}
        assert told("a", **both) == "spec.c[0]: is wrong (the JobSet's a)"

    def test_names_that_begin_alike_are_others(self) -> None:
        assert told("a.bc", a__b=(FIELD, "spec.c"), a__bc=(FIELD, "spec.d")).startswith("spec.d: ")

    @pytest.mark.parametrize("kind", [RULE, OriginKind.DEFAULT, OriginKind.TABLE])
    def test_what_nobody_wrote_is_told_of_the_jobset(self, kind: OriginKind) -> None:
        assert told("a", a=(kind, "somewhere")) == "the JobSet's a: is wrong"

    def test_options_are_named(self) -> None:
        assert told("a", a=(OPTION, "startup")) == "the JobSet's a: is wrong (option startup)"

    def test_part_of_it_written_by_nobody(self) -> None:
        assert told("a", a__x=(FIELD, "spec.x"), a__y=(RULE, "gangctl")) == "the JobSet's a: is wrong"

    def test_a_path_that_cannot_be_read(self) -> None:
        assert told("a]b", a=(FIELD, "spec.x")) == "the JobSet's a]b: is wrong"


@given(path=st.text("ab.[]0-", max_size=12))
def test_any_path_is_told_of_something(path: str) -> None:
    assert told(path, a__b=(FIELD, "spec.c"), a__c=(RULE, "gangctl")).endswith(
        ("is wrong", f"is wrong (the JobSet's {path})")
    )


class TestPlanned:
    @pytest.mark.parametrize("topology", ["", '"topologyKey": "rack", '])
    def test_gangs_that_cannot_be(self, topology: str) -> None:
        """Also where gangctl has an option of its own beside those that a person wrote."""
        translation = translate(pathways_job(metadata=annotated(gang_options=f'{{{topology}"composite": true}}')))
        assert translation.problems == ()
        (problem,) = translation.planned(ClusterRules()).problems
        assert problem.error.path == OPTIONS
        assert f"{OPTIONS}.composite" in problem.error.detail

    def test_nothing_in_the_way(self) -> None:
        assert translate(pathways_job()).planned(ClusterRules()).problems == ()

    def test_what_is_broken_already_is_not_looked_at_again(self) -> None:
        broken = translate(pathways_job(workers={"numSlices": 0}))
        assert broken.planned(ClusterRules()) is broken
