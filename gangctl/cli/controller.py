"""``gangctl controller``: the manager process. Its flags are the settings, one for one."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, Union, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from gangctl.manager.settings import ControllerSettings, load_settings


def _option(name: str, field: FieldInfo) -> click.Option:
    """The flag of one setting; unset means that the configuration file, or the default, decides."""
    kind, multiple = _click_type(field.annotation)
    text = (field.description or "").rstrip(".")
    if field.default not in {None, ""}:
        shown = ", ".join(field.default) if multiple else str(field.default)
        text += f" (default: {shown.lower() if isinstance(field.default, bool) else shown})"
    flag = f"--{name.replace('_', '-')}"
    if field.default is False:
        # The flag alone switches it on; --flag=false overrides a configuration file.
        return click.Option([flag], type=kind, is_flag=False, flag_value="true", default=None, help=f"{text}.")
    return click.Option([flag], type=kind, multiple=multiple, default=None, help=f"{text}.")


def _click_type(annotation: Any) -> tuple[click.ParamType[Any], bool]:
    """Click's type for an annotation of :class:`ControllerSettings`, and whether the flag may be repeated."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return click.Choice(list(arguments)), False
    if origin is tuple:
        return click.STRING, True
    if origin is Union or (arguments and type(None) in arguments):
        return _click_type(next(a for a in arguments if a is not type(None)))
    return {bool: click.BOOL, int: click.INT, float: click.FLOAT}.get(annotation, click.STRING), False


def _run(config: str | None, **flags: Any) -> None:
    settings = load_settings(flags, config)
    from gangctl.manager.process import run  # noqa: PLC0415 -- half a second that --help need not wait for

    asyncio.run(run(settings))


controller = click.Command(
    "controller",
    callback=_run,
    params=[
        click.Option(["--config"], metavar="FILE", help="YAML file with settings, named like these flags."),
        *(_option(name, field) for name, field in ControllerSettings.model_fields.items()),
    ],
    help="Run the controller and the admission webhooks until SIGTERM.",
    short_help="Run the controller and the admission webhooks.",
)
