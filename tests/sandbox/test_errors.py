from __future__ import annotations

from gangctl.sandbox.errors import UID_FIELD, StatusError, internal
from tests.rows import each

UID = StatusError(422, "Invalid", "immutable", {"causes": [{"field": UID_FIELD}]})


@each(("error", "another"), [(internal("failed calling webhook"), False), (UID, True)])
def test_a_write_is_given_up_only_if_its_object_is_another(error: StatusError, another: bool) -> None:
    assert error.about_another is another
