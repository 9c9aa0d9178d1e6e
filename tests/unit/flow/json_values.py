"""JSON values for properties."""

from hypothesis import strategies as st

from steptrail.domain.json_value import JsonValue

json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc.", max_size=3), inner, max_size=3),
    max_leaves=8,
)
"""Values of every type, nested a little."""
