"""Admission webhooks: the order of the calls, and the effect of an answer, of an error and of a timeout."""

from tests.conformance.answers import Refusal, details_of, internal_error, invalid, not_found, send, warnings_of
from tests.conformance.objects import configmap, configmaps
from tests.conformance.webhooks import CONFIGMAPS, DOMAIN, Hooks, Phase, Respond, deny, note, patch, raw, warn
from tests.controlplane.api import Object
from tests.rows import each

PHASES: list[Phase] = ["mutating", "validating"]


async def test_a_patch_of_a_webhook_changes_the_stored_object(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("hook", note("n", "1")))
    created = await hooks.create()
    assert created["data"] == {"k": "v", "n": "1"}
    assert (await hooks.server.api.get(configmaps(hooks.namespace, "a")))["data"] == {"k": "v", "n": "1"}

    # Also one that does not arrive in one piece.
    large = "x" * 500_000
    await hooks.register("mutating", hooks.entry("large", note("n", large)), name="b")
    assert (await hooks.create("b"))["data"] == {"k": "v", "n": large}


async def test_webhooks_are_called_in_the_order_of_their_configurations(hooks: Hooks) -> None:
    async def register(name: str) -> None:
        operations = [{"op": "add", "path": "/data/last", "value": name}]
        await hooks.register("mutating", hooks.entry(f"hook-{name}", patch(*operations)), name=name)

    for name in ("b", "a", "c"):
        await register(name)
    created = await hooks.create()
    assert created["data"]["last"] == "c"
    seen = [hooks.requests(f"hook-{name}")[0]["object"]["data"].get("last") for name in "abc"]
    assert seen == [None, "a", "b"]


async def test_webhooks_of_one_configuration_are_called_in_its_order(hooks: Hooks) -> None:
    await hooks.register("mutating", hooks.entry("two", note("last", "two")), hooks.entry("one", note("last", "one")))
    assert (await hooks.create())["data"]["last"] == "one"


async def test_the_mutated_object_is_validated(hooks: Hooks) -> None:
    # Validation sees what mutation made.
    await hooks.register("validating", hooks.entry("validate"))
    await hooks.register("mutating", hooks.entry("mutate", note("n", "1")))
    await hooks.create()
    assert hooks.requests("validate")[0]["object"]["data"] == {"k": "v", "n": "1"}

    # What mutation made is validated by the server.
    label = patch({"op": "add", "path": "/metadata/labels/bad key", "value": "1"})
    bad = hooks.entry("bad", label, objectSelector={"matchLabels": {"bad": "1"}})
    await hooks.register("mutating", bad, name="b")
    await invalid(
        hooks.create("b", labels={"bad": "1"}),
        saying='metadata.labels: Invalid value: "bad key": ',
        causes=[("FieldValueInvalid", "metadata.labels")],
    )


async def test_a_patch_of_a_webhook_that_fails_is_an_error(hooks: Hooks) -> None:
    operations = patch({"op": "replace", "path": "/nothing/here", "value": 1})
    await hooks.register("mutating", hooks.entry("hook", operations))
    await internal_error(hooks.create(), saying="Internal error occurred: ")


@each("phase", PHASES)
async def test_a_refusal_of_a_webhook_is_returned_to_the_client(hooks: Hooks, phase: Phase) -> None:
    async with hooks.elsewhere() as apart:
        status = {
            "code": 418,
            "reason": "Teapot",
            "message": "not today",
            "details": {"name": "other", "causes": [{"reason": "C", "field": "spec.x", "message": "why"}]},
        }
        await apart.register(phase, apart.entry("hook", deny(**status)))
        failure = await Refusal(418, "Teapot")(
            apart.create(), f'admission webhook "hook.{DOMAIN}" denied the request: not today', causes=[("C", "spec.x")]
        )
        assert details_of(failure) == {"name": "other"}
        await not_found(apart.server.api.get(configmaps(apart.namespace, "a")))


@each(
    ("respond", "code", "reason", "words"),
    [
        (deny(), 400, "", " without explanation"),
        (deny(message="no"), 400, "", ": no"),
        (deny(reason="Because"), 400, "Because", ": Because"),
        (deny(code=200, message="no"), 400, "", ": no"),
        (deny(code=403, message="no"), 403, "", ": no"),
    ],
)
async def test_a_refusal_without_details_has_defaults(
    hooks: Hooks, respond: Respond, code: int, reason: str, words: str
) -> None:
    async with hooks.elsewhere() as apart:
        await apart.register("validating", apart.entry("hook", respond))
        await Refusal(code, reason)(apart.create(), f'admission webhook "hook.{DOMAIN}" denied the request{words}')


async def test_a_dry_run_can_be_refused(hooks: Hooks) -> None:
    await hooks.register("validating", hooks.entry("hook", deny(code=403, message="no")))
    await Refusal(403, "")(
        hooks.server.api.create(configmaps(hooks.namespace), configmap("a"), dryRun="All"), saying=": no"
    )


@each("phase", PHASES)
async def test_warnings_of_a_webhook_are_returned_to_the_client(hooks: Hooks, phase: Phase) -> None:
    async with hooks.elsewhere() as apart:
        # Those that no header can carry are left out.
        await apart.register(phase, apart.entry("hook", warn("careful", "two\nlines", "", "very careful")))
        answer = await send(apart.server.api, "POST", configmaps(apart.namespace), configmap("a"))
        assert answer.status == 201
        assert warnings_of(answer) == ["careful", "very careful"]


async def test_a_delete_can_be_refused(hooks: Hooks) -> None:
    rule = {**CONFIGMAPS, "operations": ["DELETE"]}
    await hooks.register("validating", hooks.entry("hook", deny(code=403, message="stay"), rules=[rule]))
    await hooks.create()
    await Refusal(403, "")(hooks.server.api.delete(configmaps(hooks.namespace, "a")), saying=": stay")
    assert await hooks.server.api.get(configmaps(hooks.namespace, "a"))


# Webhooks that do not answer, or not well


DOWN: Object = {"clientConfig": {"url": "https://127.0.0.1:1/down"}}


@each("phase", PHASES)
async def test_a_webhook_that_is_down_refuses_the_request(hooks: Hooks, phase: Phase) -> None:
    async with hooks.elsewhere() as apart:
        await apart.register(phase, apart.entry("hook", **DOWN))
        await internal_error(
            apart.create(),
            saying=[
                f'Internal error occurred: failed calling webhook "hook.{DOMAIN}": failed to call webhook: ',
                'Post "https://127.0.0.1:1/down?timeout=30s": ',
                "connection refused",
            ],
        )


@each("phase", PHASES)
async def test_a_webhook_that_is_down_is_skipped_if_the_policy_is_ignore(hooks: Hooks, phase: Phase) -> None:
    async with hooks.elsewhere() as apart:
        await apart.register(phase, apart.entry("hook", failurePolicy="Ignore", **DOWN))
        assert (await apart.create())["data"] == {"k": "v"}


@each(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
async def test_a_webhook_that_times_out_follows_its_failure_policy(hooks: Hooks, policy: str, code: int) -> None:
    async with hooks.elsewhere() as apart:
        await apart.register("validating", apart.entry("hook", None, timeoutSeconds=1, failurePolicy=policy))
        answer = await send(apart.server.api, "POST", configmaps(apart.namespace), configmap("a"))
        assert answer.status == code
        if policy == "Fail":
            assert answer.body["reason"] == "InternalError"
            assert f'failed calling webhook "hook.{DOMAIN}": ' in answer.body["message"]
            assert "?timeout=1s" in answer.body["message"]
            assert "context deadline exceeded" in answer.body["message"]


@each(
    ("respond", "words"),
    [
        (raw("nonsense"), ""),
        (raw("{}", 404), ""),
        (raw("{}"), ""),
        (lambda _: {"uid": "other", "allowed": True}, 'expected response.uid="'),
    ],
)
async def test_an_invalid_answer_of_a_webhook_refuses_the_request(hooks: Hooks, respond: Respond, words: str) -> None:
    async with hooks.elsewhere() as apart:
        await apart.register("validating", apart.entry("hook", respond))
        await internal_error(
            apart.create(), saying=[f'Internal error occurred: failed calling webhook "hook.{DOMAIN}": ', words]
        )


async def test_a_webhook_with_an_untrusted_certificate_refuses_the_request(hooks: Hooks) -> None:
    entry = hooks.entry("hook")
    del entry["clientConfig"]["caBundle"]
    await hooks.register("validating", entry)
    await internal_error(hooks.create(), saying=f'failed calling webhook "hook.{DOMAIN}": ')
