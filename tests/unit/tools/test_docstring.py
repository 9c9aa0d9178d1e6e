"""What a docstring says to the model."""

import pytest

from steptrail.infrastructure.tools.docstring import parameter_docs, summary

DOC = """Search the catalogue
    for a title.

    Slow in the morning.

    Args:
        query: What to look for,
            in any language.
        limit (int): At most so many.
        stray: No such parameter.
            Its second line.
        mode (Literal["a", "b"], optional): Which index.

    Returns:
        query: the titles.
    """


def test_the_summary_is_the_first_paragraph_in_one_line() -> None:
    assert summary(DOC) == "Search the catalogue for a title."


@pytest.mark.parametrize("docstring", [None, "", "Args:\n    query: Text."])
def test_without_a_first_paragraph_there_is_no_summary(docstring: str | None) -> None:
    assert summary(docstring) == ""


def test_the_args_section_describes_the_parameters_there_are() -> None:
    assert parameter_docs(DOC, ["query", "limit", "mode", "other"]) == {
        "query": "What to look for, in any language.",
        "limit": "At most so many.",
        "mode": "Which index.",
    }


@pytest.mark.parametrize(
    "docstring", [None, "query: not in a section", "Args:\nquery: not indented", "Args:\n  query:"]
)
def test_what_does_not_have_the_form_describes_nothing(docstring: str | None) -> None:
    assert parameter_docs(docstring, ["query"]) == {}
