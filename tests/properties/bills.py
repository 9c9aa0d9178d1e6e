"""What model calls may have been billed."""

from hypothesis import strategies as st

from steptrail.domain.usage import BilledUsage, ModelUsage, Usage

usage = st.builds(Usage, input=st.integers(0, 20), output=st.integers(0, 20))
_calls = st.builds(ModelUsage, asked_for=st.sampled_from("ab"), usage=usage, unmetered=st.integers(0, 1))
billed = st.builds(
    BilledUsage,
    output=st.integers(0, 9),
    models=st.lists(_calls, max_size=2, unique_by=lambda each: each.model).map(tuple),
)
