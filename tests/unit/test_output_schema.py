"""The narrow schemas of structured output: what is changed so that it fits, and what cannot be said."""

import pytest

from steptrail.domain.json_value import JsonValue
from steptrail.domain.output_schema import NotStrict, is_recursive, object_schema, strict_schema
from steptrail.infrastructure.models.anthropic_schema import messages_schema
from steptrail.testing.model_request_schema import why_no_schema

Schema = dict[str, JsonValue]
INTEGER: Schema = {"type": "integer"}
NODE: Schema = {
    "type": "object",
    "properties": {"below": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None}},
}


def of(**properties: JsonValue) -> Schema:
    return {"type": "object", "properties": properties}


def closed(**properties: JsonValue) -> Schema:
    return {**of(**properties), "required": list(properties), "additionalProperties": False}


def test_every_field_is_required_and_no_other_is_allowed() -> None:
    given: Schema = {**of(a={**INTEGER, "default": 3, "title": "A"}, b=of(c=INTEGER)), "required": ["b"], "title": "T"}
    assert strict_schema(given) == closed(a=INTEGER, b=closed(c=INTEGER))
    assert why_no_schema(strict_schema(given), has_bounds=True) is None


def test_lists_unions_and_definitions_are_looked_into() -> None:
    given = of(
        a={"type": "array", "items": of(b=INTEGER)},
        c={"oneOf": [of(d=INTEGER), {"$ref": "#/$defs/E", "description": "beside"}], "discriminator": {"x": "y"}},
    )
    given["$defs"] = {"E": of(f=INTEGER)}
    strict = closed(
        a={"type": "array", "items": closed(b=INTEGER)}, c={"anyOf": [closed(d=INTEGER), {"$ref": "#/$defs/E"}]}
    )
    assert strict_schema(given) == {**strict, "$defs": {"E": closed(f=INTEGER)}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (of(a={"type": "object", "additionalProperties": INTEGER}), "a: fields of any name may stand there"),
        (of(a=of(b={})), r"a\.b: anything may stand there"),
        (of(a={"description": "A word.", "default": None}), "a: anything may stand there"),
        (of(a={"not": INTEGER}), "a: the strict subset has no 'not'"),
        (of(a={"type": "array", "prefixItems": [INTEGER]}), "a: the strict subset has no 'prefixItems'"),
        (of(a={"type": "array", "items": True}), r"a\.\[\]: True is no schema"),
        ({"allOf": []}, "the root: the strict subset has no 'allOf'"),
        (of(a={"enum": list(range(1001))}), "1001 values of enumerations"),
        (of(**{f"field{number}": INTEGER for number in range(5001)}), "5001 fields"),
        (of(**{"a" * 120_001: INTEGER}), "its names have 120001 characters"),
    ],
)
def test_what_cannot_be_said_is_refused_with_its_place(schema: Schema, why: str) -> None:
    with pytest.raises(NotStrict, match=why):
        strict_schema(schema)


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    nested: Schema = INTEGER
    for _ in range(9):
        nested = of(a=nested)
    assert strict_schema(nested)
    with pytest.raises(NotStrict, match="nested more than 10 levels deep"):
        strict_schema(of(a=nested))


@pytest.mark.parametrize(
    ("schema", "is_wrapped"),
    [
        (of(a=INTEGER), False),
        (INTEGER, True),
        ({"anyOf": [of(), INTEGER]}, True),
        ({"type": "array"}, True),
        ({}, True),
    ],
)
def test_the_root_is_made_an_object(schema: Schema, is_wrapped: bool) -> None:
    made, wrapped = object_schema(schema, "value")
    assert (made["type"], wrapped) == ("object", is_wrapped)
    assert (made == schema) is not is_wrapped


def test_a_root_that_refers_to_a_definition_is_replaced_by_it() -> None:
    made, wrapped = object_schema({"$defs": {"Node": NODE}, "$ref": "#/$defs/Node"}, "value")
    assert (made, wrapped) == ({**NODE, "$defs": {"Node": NODE}}, False)
    assert is_recursive(made)


def test_a_definition_that_comes_back_to_itself_through_others_is_recursive() -> None:
    there: JsonValue = {"$ref": "#/$defs/B"}
    back: JsonValue = {"anyOf": [{"$ref": "#/$defs/A"}]}
    assert is_recursive({"$defs": {"A": there, "B": back}})
    assert not is_recursive({"$defs": {"A": there, "B": INTEGER}})
    assert not is_recursive(of(a=INTEGER))


def test_a_rule_that_the_subset_does_not_have_is_told_in_words() -> None:
    given = strict_schema(
        of(
            a={"type": "string", "format": "uri", "minLength": 1, "description": "Where it is."},
            b={"type": "array", "items": INTEGER, "uniqueItems": True, "maxItems": 9},
            c={"type": "string", "pattern": "^(?!0)[0-9]+$"},
            d={"type": "string", "pattern": "^(?:a|b)$", "format": "uuid"},
            e={"type": "string", "contentMediaType": "application/json", "examples": ["1"]},
        )
    )
    assert given["properties"] == {
        "a": {"type": "string", "minLength": 1, "description": "Where it is. (format: uri)"},
        "b": {"type": "array", "items": INTEGER, "maxItems": 9, "description": "(uniqueItems: True)"},
        "c": {"type": "string", "description": "(pattern: ^(?!0)[0-9]+$)"},
        "d": {"type": "string", "pattern": "^(?:a|b)$", "format": "uuid"},
        "e": {"type": "string", "description": "(contentMediaType: application/json, examples: ['1'])"},
    }
    assert why_no_schema(given, has_bounds=True) is None


def test_messages_is_told_in_words_what_it_does_not_keep_to() -> None:
    given = strict_schema(
        of(
            a={"type": "string", "maxLength": 3, "description": "A word."},
            b={"type": "array", "items": {**INTEGER, "minimum": 0}, "minItems": 1, "maxItems": 9},
            c={"type": "string", "format": "date"},
            d={"type": "string", "format": "password"},
            e={"const": "x", "type": "string"},
        )
    )
    made = messages_schema(given)
    assert made["properties"] == {
        "a": {"type": "string", "description": "A word. (maxLength: 3)"},
        "b": {
            "type": "array",
            "items": {**INTEGER, "description": "(minimum: 0)"},
            "minItems": 1,
            "description": "(maxItems: 9)",
        },
        "c": {"type": "string", "format": "date"},
        "d": {"type": "string", "description": "(format: password)"},
        "e": {"type": "string", "enum": ["x"]},
    }
    assert why_no_schema(made, has_bounds=False) is None
    assert why_no_schema(given, has_bounds=False) == "Invalid schema: 'maxLength' is not permitted"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (INTEGER, "the root must be an object"),
        (of(a=INTEGER), "'additionalProperties' is required"),
        ({**closed(a=INTEGER), "required": []}, "'required' is required to include every key"),
        (closed(a={"$ref": "#", "title": "x"}), "$ref cannot have keywords"),
        (closed(a={"type": "array", "items": {"oneOf": []}}), "'oneOf' is not permitted"),
        (closed(a={"anyOf": [{**INTEGER, "default": 3}]}), "'default' is not permitted"),
        (closed(a={"description": "A word."}), "schema must have a 'type' key"),
        (closed(a={"type": "string", "format": "uri"}), "'uri' is not a valid format"),
    ],
)
def test_the_scripted_services_refuse_what_the_real_ones_refuse(schema: Schema, why: str) -> None:
    assert why in (why_no_schema(schema, has_bounds=True) or "")
