"""Names and the rest of metadata: what is generated, and what is refused with which words."""

from tests.conformance.answers import invalid
from tests.conformance.grounds import Server, only
from tests.conformance.objects import configmap, configmaps
from tests.controlplane.api import Object
from tests.rows import each

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@each("name", ["Bad_Name", "a/b", "-a", "a..b"], ids=["upper-case", "slash", "dash", "dots"])
async def test_a_name_must_be_a_subdomain(server: Server, namespace: str, name: str) -> None:
    await invalid(
        server.api.create(configmaps(namespace), configmap(name)),
        f'ConfigMap "{name}" is invalid: metadata.name: Invalid value: "{name}": {SUBDOMAIN}',
        causes=[("FieldValueInvalid", "metadata.name")],
    )


async def test_a_name_is_checked(server: Server, namespace: str) -> None:
    # A name has at most 253 characters.
    await invalid(
        server.api.create(configmaps(namespace), configmap("x" * 254)),
        saying=": must be no more than 253 characters",
        causes=[("FieldValueInvalid", "metadata.name")],
    )

    # A name is required.
    await invalid(
        server.api.create(configmaps(namespace), {"metadata": {}}),
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        causes=[("FieldValueRequired", "metadata.name")],
    )


async def test_names_are_generated(server: Server, namespace: str) -> None:
    # Generate name is a prefix.
    created = await server.api.create(configmaps(namespace), {"metadata": {"generateName": "gen-"}})
    assert created["metadata"]["generateName"] == "gen-"
    assert created["metadata"]["name"].startswith("gen-")
    assert len(created["metadata"]["name"]) == len("gen-") + 5

    # Each generated name is another.
    made = [await server.api.create(configmaps(namespace), {"metadata": {"generateName": "gen-"}}) for _ in range(3)]
    assert len({each["metadata"]["name"] for each in made}) == 3

    # A generated name has at most 63 characters.
    created = await server.api.create(configmaps(namespace), {"metadata": {"generateName": "g" * 80}})
    assert len(created["metadata"]["name"]) == 63
    assert created["metadata"]["generateName"] == "g" * 80

    # A name wins over generate name.
    created = await server.api.create(configmaps(namespace), configmap("a", generateName="gen-"))
    assert (created["metadata"]["name"], created["metadata"]["generateName"]) == ("a", "gen-")


@each(
    ("metadata", "field", "words"),
    [
        ({"labels": {"bad key!": "v"}}, "labels", f'Invalid value: "bad key!": {QUALIFIED_NAME}'),
        ({"labels": {"k": "bad value!"}}, "labels", f'Invalid value: "bad value!": {LABEL_VALUE}'),
        ({"labels": {"k": "v" * 64}}, "labels", f'Invalid value: "{"v" * 64}": must be no more than 63 bytes'),
        ({"annotations": {"bad key!": "v"}}, "annotations", f'Invalid value: "bad key!": {QUALIFIED_NAME}'),
        (
            {"finalizers": ["nodomain"]},
            "finalizers[0]",
            'Invalid value: "nodomain": name is neither a standard finalizer name nor is it fully qualified',
        ),
    ],
)
async def test_metadata_is_validated(server: Server, namespace: str, metadata: Object, field: str, words: str) -> None:
    await invalid(
        server.api.create(configmaps(namespace), configmap("a", **metadata)),
        f'ConfigMap "a" is invalid: metadata.{field}: {words}',
        causes=[("FieldValueInvalid", f"metadata.{field}")],
    )


async def test_metadata_has_a_limit_and_is_checked_in_patches(server: Server, namespace: str) -> None:
    # Annotations have a limit together.
    await invalid(
        server.api.create(configmaps(namespace), configmap("a", annotations={"k": "v" * 256 * 1024})),
        'ConfigMap "a" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes',
        causes=[("FieldValueTooLong", "metadata.annotations")],
    )

    # Metadata is validated in patches too.
    await server.api.create(configmaps(namespace), configmap("a"))
    await invalid(
        server.api.patch(configmaps(namespace, "a"), {"metadata": {"labels": {"bad key!": "1"}}}),
        saying='metadata.labels: Invalid value: "bad key!": ',
        causes=[("FieldValueInvalid", "metadata.labels")],
    )


# Before 1.37 the path had no index, and an empty value was an invalid one.
@only("1.37")
@each("missing", ["uid", "kind", "name"])
async def test_an_owner_reference_is_complete(server: Server, namespace: str, missing: str) -> None:
    path = f"metadata.ownerReferences[0].{missing}"
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", missing: ""}
    await invalid(
        server.api.create(configmaps(namespace), configmap("a", ownerReferences=[owner])),
        f'ConfigMap "a" is invalid: {path}: Required value: must not be empty',
        causes=[("FieldValueRequired", path)],
    )


async def test_one_owner_controls(server: Server, namespace: str) -> None:
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": True} for name in ("o", "p")
    ]
    await invalid(
        server.api.create(configmaps(namespace), configmap("a", ownerReferences=owners)),
        saying='Only one reference can have Controller set to true. Found "true" in references for '
        "ConfigMap/o and ConfigMap/p",
        causes=[("FieldValueInvalid", "metadata.ownerReferences")],
    )
