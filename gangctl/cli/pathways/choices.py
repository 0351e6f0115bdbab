"""The flags that choose among renderings: one for each entry of the options of Pathways."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gangctl.errors import InputError

if TYPE_CHECKING:
    from gangctl.pathways.options import PathwaysOptions

F = TypeVar("F", bound=Callable[..., Any])

STARTUPS: Final = ("InOrder", "DependsOn", "AnyOrder")
SLICINGS: Final = ("None", "Sub", "Super", "Dynamic")
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
"""Spelled out, because what has them as types takes a tenth of a second to import, and ``--help`` does without."""

MOST_SECONDS: Final = 2**31 - 1
"""What the API's fields for seconds hold."""
COMPONENTS: Final = ("resourceManager", "proxy")
_LISTS: Final = ("requests", "limits")
_RESOURCE: Final = "COMPONENT.requests.NAME=QUANTITY"

_FLAGS: Final = (
    click.option("--image-registry", metavar="REGISTRY", help="Where the images of Pathways are pulled from."),
    click.option(
        "--image-pull-policy",
        type=click.Choice(PULL_POLICIES),
        help="imagePullPolicy of the containers that gangctl adds. Default: the API's.",
    ),
    click.option("--startup", type=click.Choice(STARTUPS), help="Order in which head and workers are created."),
    click.option("--slicing", type=click.Choice(SLICINGS), help="How the cluster gets its slices."),
    click.option(
        "--subdomain",
        metavar="NAME|auto",
        help='Subdomain of the pods\' addresses, which allows longer names; "auto" makes a short one where needed.',
    ),
    click.option(
        "--head-node-selector",
        multiple=True,
        metavar="KEY=VALUE",
        help="Node label for the head where its template does not choose nodes itself. Can be repeated.",
    ),
    click.option(
        "--head-resources",
        multiple=True,
        metavar=f"{_RESOURCE}|JSON",
        help="Requests and limits of the resource manager and the proxy, such as proxy.limits.memory=50G; a request "
        "that is left out is the limit. Can be repeated.",
    ),
    click.option(
        "--unreachable-timeout-seconds",
        type=click.IntRange(1, MOST_SECONDS),
        metavar="SECONDS",
        help="After how long Pathways gives up a peer that does not answer.",
    ),
    click.option(
        "--ttl-seconds-after-finished",
        type=click.IntRange(0, MOST_SECONDS),
        metavar="SECONDS",
        help="After how long a finished JobSet is deleted. Default: never.",
    ),
    click.option("--shared-tmp/--no-shared-tmp", default=None, help="Whether workers share /tmp with their node."),
    click.option(
        "--drop-metadata",
        multiple=True,
        metavar="PREFIX",
        help="Beginning of labels and annotations that stay on the PathwaysJob. Can be repeated.",
    ),
)


def choices(command: F) -> F:
    """One flag for each entry of :class:`~gangctl.pathways.options.PathwaysOptions`, by its name in kebab case."""
    for option in reversed(_FLAGS):
        command = option(command)
    return command


def take_options(flags: dict[str, Any]) -> PathwaysOptions:
    """The options among the flags of a command, which are taken out; InputError when they are none."""
    from pydantic import ValidationError  # noqa: PLC0415 -- --help does without

    from gangctl.pathways.options import PathwaysOptions  # noqa: PLC0415

    given = {name: value for name in PathwaysOptions.model_fields if (value := flags.pop(name)) not in {None, ()}}
    if "head_node_selector" in given:
        given["head_node_selector"] = pairs("--head-node-selector", given["head_node_selector"])
    if "head_resources" in given:
        given["head_resources"] = _head_resources(given["head_resources"])
    try:
        return PathwaysOptions.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name, *inner = (str(step) for step in first["loc"])
        flag = f"--{name.replace('_', '-')}"
        raise InputError(f"{flag}: {''.join(f'{step}: ' for step in inner)}{first['msg']}") from error


def pairs(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """``KEY=VALUE`` each, where the value may hold more signs of equality; InputError for anything else."""
    found: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InputError(f'{flag}: "{text}" is not of the form KEY=VALUE')
        if key in found:
            raise InputError(f'{flag}: "{key}" is given twice')
        found[key] = value
    return found


def _head_resources(texts: Iterable[str]) -> dict[str, Any]:
    """Nested as the option has it, of JSON objects and of single quantities."""
    found: dict[str, Any] = {}
    for text in texts:
        if text.lstrip().startswith("{"):
            _merge(found, _json(text))
            continue
        path, sign, quantity = text.partition("=")
        component, list_of, resource = (*path.split(".", 2), "", "")[:3]
        if not sign or not resource or list_of not in _LISTS:
            example = "proxy.limits.memory=50G"
            raise InputError(
                f'--head-resources: "{text}" is not of the form {_RESOURCE}',
                hint=f"components: {', '.join(COMPONENTS)}; requests or limits: {example}",
            )
        _merge(found, {component: {list_of: {resource: quantity}}})
    for component in found:
        if component not in COMPONENTS:
            raise InputError(f'--head-resources: "{component}" is no component, known: {", ".join(COMPONENTS)}')
    return found


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--head-resources: this is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError("--head-resources: must be a JSON object")
    return value


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add what is more, object by object; a later value wins over an earlier one."""
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
