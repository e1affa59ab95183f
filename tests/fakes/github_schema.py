"""What GitHub publishes of its GraphQL API, held against the queries that are sent and what the stand-in answers.

tests/data/github_graphql.json is the part that is used of GitHub's schema, as the npm package @octokit/graphql-schema
15.26.1 (MIT) has it: the fields of each type with their arguments, the words of each enumeration, and which types an
interface or a union may be. Queries are read as far as this program writes them: one operation with variables, and
inline fragments; no aliases, named fragments or directives.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

import orjson

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import list_of, object_of, text_of

FILE = Path(__file__).parent.parent / "data/github_graphql.json"
SCALARS: Mapping[str, type] = {
    "Int": int,
    "Boolean": bool,
    **dict.fromkeys(("String", "ID", "URI", "DateTime", "GitObjectID"), str),
}
_TOKEN = re.compile(r"\.\.\.|\w+|[{}():!$\[\]]")


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field that is asked for, with its arguments: a number, or `$` and the name of a variable."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    selection: "Selection" = ()


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """Fields that are asked for if the object is of a type."""

    kind: str
    selection: "Selection"


Selection: TypeAlias = tuple[Field | Fragment, ...]


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query; `variables` has the types of its variables."""

    variables: Mapping[str, str]
    selection: Selection


def objections(query: str, variables: JsonObject) -> list[str]:
    """Return what GitHub's schema does not allow in a query and the values of its variables."""
    read = read_query(query)
    found = [f"the variable {name} is not declared" for name in variables.keys() - read.variables.keys()]
    for name, kind in read.variables.items():
        found += _misfits(kind, variables.get(name), (), f"${name}")
    return found + list(_wrong(read.selection, "Query", read.variables))


def answer_objections(query: str, data: Json) -> list[str]:
    """Return why the data of an answer is none of GitHub's to this query."""
    return list(_misfits("Query!", data, read_query(query).selection, "data"))


def read_query(text: str) -> Query:
    """Return a query. Raises ValueError for what is not read."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"[\s,]", "", text):
        raise ValueError(f"not a query that is read here: {text}")
    _expect(tokens, "query")
    variables = {}
    if tokens[0] == "(":
        _expect(tokens, "(")
        while tokens[0] != ")":
            _expect(tokens, "$")
            name = tokens.pop(0)
            _expect(tokens, ":")
            variables[name] = _value(tokens)
        _expect(tokens, ")")
    return Query(variables=variables, selection=_selection(tokens))


def _selection(tokens: list[str]) -> Selection:
    _expect(tokens, "{")
    found: list[Field | Fragment] = []
    while tokens[0] != "}":
        if tokens[0] == "...":
            _expect(tokens, "...")
            _expect(tokens, "on")
            found.append(Fragment(kind=tokens.pop(0), selection=_selection(tokens)))
        else:
            name, arguments = tokens.pop(0), _arguments(tokens)
            found.append(
                Field(name=name, arguments=arguments, selection=_selection(tokens) if tokens[0] == "{" else ())
            )
    _expect(tokens, "}")
    return tuple(found)


def _arguments(tokens: list[str]) -> Mapping[str, str]:
    found = {}
    if tokens[0] == "(":
        _expect(tokens, "(")
        while tokens[0] != ")":
            name = tokens.pop(0)
            _expect(tokens, ":")
            found[name] = _value(tokens)
        _expect(tokens, ")")
    return found


def _value(tokens: list[str]) -> str:
    """Return a type with its `!`, a number, or a variable with its `$`."""
    value = tokens.pop(0)
    if value == "$":
        return value + tokens.pop(0)
    return value + tokens.pop(0) if tokens[0] == "!" else value


def _expect(tokens: list[str], token: str) -> None:
    if tokens.pop(0) != token:
        raise ValueError(f"{token} was expected before {' '.join(tokens)}")


def _wrong(selection: Selection, kind: str, variables: Mapping[str, str]) -> Iterator[str]:
    """Yield what a type does not have of what is asked of it."""
    for one in selection:
        if isinstance(one, Fragment):
            if one.kind not in possible(kind):
                yield f"a {kind} is never a {one.kind}"
            yield from _wrong(one.selection, one.kind, variables)
        elif one.name != "__typename":
            there = fields_of(kind).get(one.name)
            if there is None:
                yield f"{kind}.{one.name} is not described"
            else:
                yield from _wrong_field(one, f"{kind}.{one.name}", object_of(there), variables)


def _wrong_field(one: Field, place: str, there: JsonObject, variables: Mapping[str, str]) -> Iterator[str]:
    known = object_of(there.get("args"))
    for name, value in one.arguments.items():
        given = variables.get(value.removeprefix("$"), value) if value.startswith("$") else "Int!"
        wanted = text_of(known.get(name))
        if not wanted:
            yield f"{place} takes no {name}"
        elif given not in {wanted, f"{wanted}!"}:
            yield f"{place} takes {name}: {wanted}, and not {given}"
    for name in known.keys() - one.arguments.keys():
        if text_of(known[name]).endswith("!"):
            yield f"{place} needs {name}"
    inner = text_of(there["type"]).strip("[]!")
    if bool(one.selection) == (inner in SCALARS or inner in object_of(schema()["enums"])):
        yield f"{place} is a {inner}, which has {'no' if one.selection else 'only'} fields"
    elif one.selection:
        yield from _wrong(one.selection, inner, variables)


def _misfits(kind: str, value: Json, selection: Selection, place: str) -> Iterator[str]:
    """Yield why a value is not of a type."""
    inner = kind.removesuffix("!")
    words = object_of(schema()["enums"]).get(inner)
    if value is None:
        fits = inner == kind
    elif inner.startswith("["):
        fits = isinstance(value, list)
    elif words is not None:
        fits = value in list_of(words)
    else:
        fits = type(value) is SCALARS.get(inner, dict)
    if not fits:
        yield f"{place}: {value!r:.80} is no {kind}"
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _misfits(inner[1:-1], one, selection, f"{place}[{number}]")
    elif isinstance(value, dict):
        yield from _fields_misfit(inner, value, selection, place)


def _fields_misfit(kind: str, value: JsonObject, selection: Selection, place: str) -> Iterator[str]:
    asked = dict(_asked(kind, value, selection))
    for name in sorted(asked.keys() ^ value.keys()):
        yield f"{place}.{name} was {'' if name in asked else 'not '}asked for and is {'not ' * (name in asked)}there"
    for name in asked.keys() & value.keys():
        yield from _misfits(asked[name][0], value[name], asked[name][1], f"{place}.{name}")


def _asked(kind: str, value: JsonObject, selection: Selection) -> Iterator[tuple[str, tuple[str, Selection]]]:
    """Yield the fields asked of an object by its own type; without a `__typename` it is of every type asked for."""
    for one in selection:
        if isinstance(one, Field):
            there = object_of(fields_of(kind).get(one.name))
            yield one.name, (text_of(there.get("type")) or "String!", one.selection)
        elif value.get("__typename", one.kind) == one.kind:
            yield from _asked(one.kind, value, one.selection)


def fields_of(kind: str) -> JsonObject:
    """Return the fields of a type, as far as they are used."""
    return object_of(object_of(schema()["types"]).get(kind))


def possible(kind: str) -> list[Json]:
    """Return the types that an object of a type may be."""
    return [kind, *list_of(object_of(schema()["possible"]).get(kind))]


@cache
def schema() -> JsonObject:
    """Return the part that is used of the schema."""
    return object_of(orjson.loads(FILE.read_bytes()))
