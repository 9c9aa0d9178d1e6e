"""Metrics of golden streams: every instrument is used, and no label holds an id or what anybody said."""

from steptrail.projections.telemetry.metrics import INSTRUMENTS, Measure, measures_of
from steptrail.projections.telemetry.names import Metric
from tests.golden import flows, streams
from tests.harness.spans import spans_of
from tests.unit.telemetry.test_golden_spans import STREAMS

LABELS = {
    "error.type",
    "gen_ai.agent.name",
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.token.type",
    "gen_ai.tool.name",
    "gen_ai.workflow.name",
    "steptrail.decision",
    "steptrail.effect",
    "steptrail.node",
    "steptrail.resolved_by",
    "steptrail.status",
    "steptrail.stop_reason",
    "steptrail.wait",
}
# Units of `opentelemetry-semantic-conventions`; `gen_ai.execute_tool.duration` and the like are of the repository that
# these conventions have moved to, and have seconds too.
UNITS = {"gen_ai.client.operation.duration": "s", "gen_ai.client.token.usage": "{token}"}


def measured(parts: bool = True) -> list[Measure]:
    found: list[Measure] = []
    for kind, path in STREAMS:
        records = flows.read(path) if kind == "flow" else streams.read(path)
        spans = spans_of(f"{kind}:an-id", records, parts=parts)
        found += [each for span in spans for each in measures_of(span)]
    return found


def test_every_instrument_is_used_and_says_what_it_counts_in() -> None:
    assert {each.metric for each in measured()} == set(INSTRUMENTS)
    looked_up = {Metric.OPEN, Metric.OLDEST_DUE, Metric.PROJECTION_LAG}
    of_a_fleet = {Metric.FLEET_WAITING, Metric.FLEET_OLDEST, Metric.WORKER_RUNNING, Metric.WORKER_WAKES}
    assert set(Metric) - set(INSTRUMENTS) == looked_up | of_a_fleet
    assert {name: INSTRUMENTS[Metric(name)].unit for name in UNITS} == UNITS
    assert all(each.value >= 0 for each in measured())


def test_no_label_holds_an_id() -> None:
    for each in measured():
        assert each.attributes.keys() <= LABELS
        assert all("an-id" not in str(value) for value in each.attributes.values())


def test_without_spans_of_steps_the_metrics_are_the_same() -> None:
    def listed(found: list[Measure]) -> list[str]:
        return sorted(str((each.metric, each.value, sorted(each.attributes.items()))) for each in found)

    assert listed(measured(parts=False)) == listed(measured())
