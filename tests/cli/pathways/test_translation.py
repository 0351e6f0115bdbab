"""Errors of a rendered JobSet, reported at the fields that the user wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.objects import Object
from gangctl.api.scheduling import Feature
from gangctl.cli.pathways.subjects import Translation, translate
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.resolve import ClusterRules
from gangctl.pathways.problems import InvalidReason
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.result import Origin, OriginKind, Rendering, RenderingInputs
from tests.pathways.samples import annotated, pathways_job

OPTIONS = "metadata.annotations[gangctl.dev/gang-options]"


def reported(path: str, **origins: tuple[OriginKind, str]) -> str:
    """An error at ``path`` of a JobSet with these origins, by leaf; ``__`` stands for a dot."""
    known = {leaf.replace("__", "."): Origin(*origin) for leaf, origin in origins.items()}
    rendering = Rendering({}, known, (), {})
    (problem,) = Translation((), (), rendering=rendering).at_source([FieldError(path, ErrorKind.INVALID, "is wrong")])
    assert problem.reason is InvalidReason.INVALID_JOBSET
    return str(problem.error)


FIELD, FLAG, RULE, OPTION = OriginKind.FIELD, OriginKind.FLAG, OriginKind.RULE, OriginKind.OPTION


class TestPlaces:
    def test_an_error_names_the_field_of_the_pathwaysjob(self) -> None:
        assert reported("metadata.name", metadata__name=(FIELD, "metadata.name")) == "metadata.name: is wrong"
        assert reported("a.b", a__b=(FIELD, "spec.c")) == "spec.c: is wrong (the JobSet's a.b)"

    def test_an_error_names_the_flag(self) -> None:
        assert reported("a", a=(FLAG, "--num-slices")) == "--num-slices: is wrong (the JobSet's a)"

    def test_an_error_inside_a_value_names_its_field(self) -> None:
        assert reported("a.b[0]", a__b=(FIELD, "spec.c")) == "spec.c: is wrong (the JobSet's a.b[0])"

    def test_an_error_in_an_absent_field_names_its_parent(self) -> None:
        assert reported("a.missing", a__b=(FIELD, "spec.c")) == "spec.c: is wrong (the JobSet's a.missing)"

    def test_an_error_over_several_fields_names_their_parent(self) -> None:
        both = {"a__x": (FIELD, "spec.c[0].x"), "a__y": (FIELD, "spec.c[0].z")}
        assert reported("a", **both) == "spec.c[0]: is wrong (the JobSet's a)"

    def test_fields_with_a_common_prefix_are_distinguished(self) -> None:
        assert reported("a.bc", a__b=(FIELD, "spec.c"), a__bc=(FIELD, "spec.d")).startswith("spec.d: ")

    @pytest.mark.parametrize("kind", [RULE, OriginKind.DEFAULT, OriginKind.TABLE])
    def test_an_error_in_a_generated_field_names_the_jobset(self, kind: OriginKind) -> None:
        assert reported("a", a=(kind, "somewhere")) == "the JobSet's a: is wrong"

    def test_an_error_in_an_option_names_it(self) -> None:
        assert reported("a", a=(OPTION, "startup")) == "the JobSet's a: is wrong (option startup)"

    def test_an_error_in_a_partly_generated_field_names_the_jobset(self) -> None:
        assert reported("a", a__x=(FIELD, "spec.x"), a__y=(RULE, "gangctl")) == "the JobSet's a: is wrong"

    def test_an_invalid_path_names_the_jobset(self) -> None:
        assert reported("a]b", a=(FIELD, "spec.x")) == "the JobSet's a]b: is wrong"


@given(path=st.text("ab.[]0-", max_size=12))
def test_an_error_at_any_path_has_a_place(path: str) -> None:
    assert reported(path, a__b=(FIELD, "spec.c"), a__c=(RULE, "gangctl")).endswith(
        ("is wrong", f"is wrong (the JobSet's {path})")
    )


def translated(raw: Object) -> Translation:
    """A PathwaysJob and its JobSet, in a cluster with everything."""
    return translate(read_pathways_job(raw), RenderingInputs())


class TestPlanned:
    @pytest.mark.parametrize("topology", ["", '"topologyKey": "rack", '])
    def test_impossible_gangs_are_reported(self, topology: str) -> None:
        """Also where gangctl has an option of its own beside those that a person wrote."""
        one = {"numSlices": 1}
        options = f'{{{topology}"composite": true}}'
        translation = translated(pathways_job(metadata=annotated(gang_options=options), workers=one))
        assert translation.problems == ()
        (problem,) = translation.planned(ClusterRules(lacks=frozenset({Feature.COMPOSITE}))).problems
        assert problem.error.path == OPTIONS
        assert f"{OPTIONS}.composite" in problem.error.detail

    def test_a_possible_gang_has_no_error(self) -> None:
        assert translated(pathways_job()).planned(ClusterRules()).problems == ()

    def test_an_invalid_job_is_not_planned(self) -> None:
        broken = translated(pathways_job(workers={"numSlices": 0}))
        assert broken.planned(ClusterRules()) is broken
