"""Calls made up from the declarations: of every overload one that fits, and many that may not."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from gangctl.cel.declarations import ALL, kubernetes
from gangctl.cel.declarations.signature import Overload
from gangctl.cel.tokens import tokens
from gangctl.cel.types import Type

SAMPLES = {
    "A": "1",
    "B": "'b'",
    "T": "1",
    "V": "1",
    "bool": "(1 < 2)",
    "bytes": "b'a'",
    "double": "1.5",
    "dyn": "object.x",
    "int": "int(1)",
    "null_type": "null",
    "string": "string(1)",
    "uint": "1u",
    "google.protobuf.Duration": "duration('1s')",
    "google.protobuf.Timestamp": "timestamp('2026-01-02T03:04:05Z')",
    "kubernetes.NamedFormat": "format.uri()",
    "kubernetes.Quantity": "quantity('1')",
    "kubernetes.Semver": "semver('1.0.0')",
    "kubernetes.URL": "url('https://a')",
    "net.CIDR": "cidr('10.0.0.0/8')",
    "net.IP": "ip('::1')",
}
OTHERS = ("null", "object.x", "'a'", "2", "2u", "[1]", "['a']", "{'a': 1}", "optional.of('a')", "request", "int", "[]")
OPERATORS = {
    "_?_:_": "{} ? {} : {}",
    "_[_]": "{}[{}]",
    "_[?_]": "{}[?{}]",
    "@in": "{} in {}",
    "!_": "!{}",
    "-_": "-({})",
}


def sample(type_: Type) -> str:
    if type_.name == "list":
        return f"[{sample(type_.parameters[0])}]"
    if type_.name == "map":
        return f"{{{sample(type_.parameters[0])}: {sample(type_.parameters[1])}}}"
    if type_.name == "optional_type":
        return f"optional.of({sample(type_.parameters[0])})"
    return SAMPLES[type_.name]


def call(overload: Overload, arguments: list[str]) -> str:
    name = overload.name
    if name in OPERATORS:
        return OPERATORS[name].format(*arguments)
    if name.startswith("_"):
        return f"{arguments[0]} {name.strip('_')} {arguments[1]}"
    if overload.method:
        return f"{arguments[0]}.{name}({', '.join(arguments[1:])})"
    return f"{name}({', '.join(arguments)})"


def fitting() -> Iterator[str]:
    """One call of every overload that can be used."""
    for overload in ALL:
        if overload not in kubernetes.AUTHORIZER:
            yield call(overload, [sample(each) for each in overload.parameters])


def doubtful() -> Iterator[str]:
    """Calls with one argument replaced, left out or added: most of them do not fit."""
    seen = set()
    for overload in ALL:
        if overload in kubernetes.AUTHORIZER:
            continue
        arguments = [sample(each) for each in overload.parameters]
        for position in range(len(arguments)):
            for other in OTHERS:
                replaced = [*arguments[:position], other, *arguments[position + 1 :]]
                seen.add(call(overload, replaced))
        if overload.name[0].isalpha():
            seen.add(call(overload, [*arguments, "1"]))
            if arguments:
                seen.add(
                    call(overload, arguments[:-1]) if not overload.method or arguments[1:] else overload.name + "()"
                )
    yield from sorted(seen)


MIXED = (
    "({}) == ({})",
    "({}) + ({})",
    "[{}, {}]",
    "{{{}: {}}}",
    "object.x ? ({}) : ({})",
    "({}) in ({})",
    "[{}].map(q, [{}])",
    "({}).map(w, {})",
    "optional.of({}).orValue({})",
    "[{}] == [{}]",
    "({}) < ({})",
    "'%s %s'.format([{}, {}])",
    "[[{}], [{}]].flatten()",
    "{{'k': {}}} == {{'k': {}}}",
    "[{}].indexOf({})",
    "({})[{}]",
    "[?optional.of({}), {}]",
    "dyn({}) == ({})",
    "sets.contains([{}], [{}])",
    "optional.of({}).optMap(o, [o, {}])",
    "has(({}).a) && has(({}).b)",
    "({}).?z.orValue({})",
)


def mixed(expressions: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """Expressions made of two others each, and others with a word replaced, left out or added."""
    chance = random.Random(seed)
    words = [[each.text for each in tokens(expression)] for expression in expressions]
    for _ in range(count):
        yield chance.choice(MIXED).format(chance.choice(expressions), chance.choice(expressions))
        changed = list(chance.choice(words))
        place = chance.randrange(len(changed))
        other = chance.choice([chance.choice(chance.choice(words)), *"+-.?:,()[]{}!<", "in", "&&"])
        changed[place : place + chance.randrange(2)] = [other] if chance.random() < 0.8 else []
        if changed:
            yield " ".join(changed)
