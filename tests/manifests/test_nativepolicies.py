"""The component policies/native is what ``gangctl policy export`` writes."""

from tests.manifests.nativepolicies import render


def test_the_components_are_those_of_the_pack() -> None:
    assert {path: path.read_text(encoding="utf-8") for path in render()} == render()
