"""Families of types that JSON tells apart by their `name`: the noises, the procedures.

A `Kinds` object is an open discriminated union. `Annotated[Base, KINDS]` is a pydantic type that accepts every kind
that has been added, so a further kind needs an entry and no change anywhere else, and a program can add its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError, SchemaValidator, core_schema

from smoothcert.errors import MOST_NAMED, WORDS, DomainError, suggestion, worded

Base = TypeVar("Base")
FIELD_ERRORS = ("extra_forbidden", "unexpected_keyword_argument", "missing")
"""Pydantic's types of errors about an unknown or a missing field."""


@dataclass(eq=False)
class Kinds(Generic[Base]):
    """The kinds of one family, by name. Each is a frozen type whose field `name` is a `Literal` with its own name."""

    family: str
    """What the family is called in errors, for example "noise"."""
    is_offered: Callable[[type[Base]], bool] = lambda _: True
    """Whether an error about an unknown name offers this kind in its place."""
    _kinds: dict[str, type[Base]] = field(default_factory=dict)
    _validator: SchemaValidator | None = None

    def add(self, kind: type[Base]) -> type[Base]:
        """Add a kind; usable as a decorator. DomainError where another type has its name, or it has none."""
        name = self._name(kind)
        if self._kinds.setdefault(name, kind) is not kind:
            raise DomainError(f"there is another {self.family} with the name {name!r}: {self._kinds[name]!r}")
        self._validator = None
        return kind

    def _name(self, kind: type[Base]) -> str:
        """The one name that its field `name` allows."""
        names = get_args(get_type_hints(kind).get("name")) if isinstance(kind, type) else ()
        if len(names) != 1 or not isinstance(names[0], str):
            accepted = f'a {self.family} must be a class with a field `name: Literal["..."]`, which has one name'
            raise DomainError(f"{accepted}; got {kind!r}")
        return names[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all kinds, in the order in which they were added."""
        return tuple(self._kinds)

    @property
    def offered(self) -> tuple[str, ...]:
        """The names that an error about an unknown one offers."""
        return tuple(name for name, kind in self._kinds.items() if self.is_offered(kind))

    def __iter__(self) -> Iterator[type[Base]]:
        return iter(self._kinds.values())

    def __getitem__(self, name: str) -> type[Base]:
        try:
            return self._kinds[name]
        except KeyError:
            raise DomainError(f"{self.family} must be one of {', '.join(self._kinds)}; got {name!r}") from None

    def validate(self, value: Any) -> Base:
        """An object of its kind, from such an object, a mapping with a `name`, or a name alone for the defaults."""
        try:
            chosen: Base = self.prepare().validate_python({"name": value} if isinstance(value, str) else value)
        except ValidationError as error:
            if error.error_count() > MOST_NAMED:  # nobody will read them
                raise
            found = [self._with_fields(each) for each in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(error.title, found) from None
        return chosen

    def _with_fields(self, each: ErrorDetails) -> InitErrorDetails:
        """The error; one about an unknown or a missing field of a kind with what the kind has, which pydantic omits.

        One about an unknown name offers the kinds of `offered`; pydantic lists all.
        """
        kind, context = each["type"], each.get("ctx", {})
        if kind == "union_tag_invalid":
            context = {**context, "expected_tags": ", ".join(map(repr, self.offered))}
        detail = InitErrorDetails(type=kind, loc=each["loc"], input=each["input"], ctx=context)
        if kind in FIELD_ERRORS and len(each["loc"]) == 2:
            context = {WORDS: self._about_field(each)}
        if WORDS in context:
            detail["type"] = PydanticCustomError(kind, "{words}", context)  # of the same type, which readers know
        return detail

    def _about_field(self, each: ErrorDetails) -> str:
        name, field = map(str, each["loc"])
        known = fields_of(self._kinds[name])
        if each["type"] == "missing":
            return worded(each) + (f": {known[field]}" if known.get(field) else "")
        own = [other for other in known if other != "name"]
        return f"{worded(each)}{suggestion(field, own)}; {name} has {', '.join(own) or 'no other fields'}"

    def prepare(self) -> SchemaValidator:
        """Build the validator now instead of with the first value that is validated."""
        if self._validator is None:
            self._validator = SchemaValidator(self._union())
        return self._validator

    def _union(self) -> CoreSchema:
        choices = {name: TypeAdapter(kind).core_schema for name, kind in self._kinds.items()}
        return core_schema.tagged_union_schema(choices, discriminator="name")

    # How pydantic sees the type. Validation looks the kinds up when a value comes, not when a model is defined, so
    # that a kind may be added after the models that mention its family.

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        union = handler(self._union())
        plain = [name for name, kind in self._kinds.items() if not TypeAdapter(kind).json_schema().get("required")]
        if handler.mode == "serialization" or not plain:
            return union
        return {"anyOf": [union, {"type": "string", "enum": plain}]}


def fields_of(kind: type[Any]) -> dict[str, str]:
    """The fields that a kind is made of, each with what it means, if it says so, as a part of a sentence."""
    if issubclass(kind, BaseModel):
        texts = {name: each.description or "" for name, each in kind.model_fields.items()}
        return {name: " ".join(text.split()).rstrip(".") for name, text in texts.items()}
    return {each.name: "" for each in dataclass_fields(kind) if each.init}
