"""Parameters: which objects ``params`` is, one evaluation for each of them.

As natively (``CollectParams`` of the API server): a policy without paramKind or without
paramRef is evaluated once, with ``params`` null; one whose objects are missing is left out
or cannot be evaluated, as ``parameterNotFoundAction`` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal, Protocol

from gangctl.api.objects import Object, object_at
from gangctl.policy.constraints import LabelSelector
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.match import matches
from gangctl.policy.model import GangPolicySpec
from gangctl.policy.review import Review

NOT_FOUND: Final = "no params found for policy binding with `Deny` parameterNotFoundAction"

Scope = Literal["Namespaced", "Cluster"]


class ParamsError(Exception):
    """Parameters that are not available: the policy cannot be evaluated, and failurePolicy decides."""


class ParamCatalogue(Protocol):
    """The objects that can be parameters: an informer's cache, or the files of a command."""

    def scope(self, api_version: str, kind: str) -> Scope | None:
        """Whether objects of this kind have a namespace; None for a kind that is not known (yet)."""

    def find(
        self, api_version: str, kind: str, namespace: str, *, name: str = "", selector: LabelSelector | None = None
    ) -> Sequence[Object]:
        """The object of that name, or all that the selector matches.

        ``namespace`` is empty for a cluster-scoped kind.
        """


def takes_params(spec: GangPolicySpec) -> bool:
    """Whether there is anything to look up."""
    return spec.param_kind is not None and spec.param_ref is not None


def resolve(policy: LoadedPolicy, review: Review, catalogue: ParamCatalogue) -> tuple[Object, ...]:
    """The parameters of one policy, in the order of their names.

    Empty where it takes none, and where there are none and that is allowed. :class:`ParamsError` for everything that
    failurePolicy has to decide.
    """
    kind, reference = policy.spec.param_kind, policy.spec.param_ref
    if kind is None or reference is None:
        return ()
    scope = catalogue.scope(kind.api_version, kind.kind)
    if scope is None:
        raise ParamsError(f"paramKind kind `{kind.api_version}, Kind={kind.kind}` not known")
    if scope == "Cluster" and reference.namespace:
        raise ParamsError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    namespace = ""
    if scope == "Namespaced":
        namespace = reference.namespace or str(review.request.get("namespace") or "")
        if not namespace:
            raise ParamsError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    found = catalogue.find(kind.api_version, kind.kind, namespace, name=reference.name, selector=reference.selector)
    if not found and reference.parameter_not_found_action == "Deny":
        raise ParamsError(NOT_FOUND)
    return tuple(sorted((_typed(each, kind.api_version, kind.kind) for each in found), key=name_of))


def _typed(obj: Object, api_version: str, kind: str) -> Object:
    """The object with the type that lists leave out of their items."""
    return obj if "kind" in obj and "apiVersion" in obj else {**obj, "apiVersion": api_version, "kind": kind}


def name_of(params: Object) -> str:
    """``NAMESPACE/NAME``, or the name of what has no namespace."""
    metadata = object_at(params, "metadata")
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    return f"{namespace}/{name}" if namespace else name


def with_params(review: Review, policies: Iterable[LoadedPolicy], catalogue: ParamCatalogue) -> Review:
    """The review with the parameters of every policy that applies, and the errors where they are not available."""
    params: dict[str, tuple[Object, ...]] = dict(review.params)
    errors: dict[str, str] = dict(review.param_errors)
    for policy in policies:
        if not takes_params(policy.spec) or matches(policy, review):
            continue
        try:
            params[policy.name] = resolve(policy, review, catalogue)
        except ParamsError as error:
            errors[policy.name] = str(error)
    return replace(review, params=params, param_errors=errors)
