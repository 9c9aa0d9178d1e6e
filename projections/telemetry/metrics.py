"""Says what a span that has ended adds to metrics. No attribute holds an id, so that there are few series.

A try that a crash cut off, or that rests with the session it runs, has no duration that says anything.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from steptrail.projections.telemetry.names import Metric, Name, Operation, Own
from steptrail.projections.telemetry.span import Attribute, Attributes, Span


class Instrument(NamedTuple):
    """A counter, or with `buckets` a histogram. The unit and the buckets of the conventions are theirs."""

    unit: str
    description: str
    buckets: tuple[float, ...] = ()


class Measure(NamedTuple):
    """One value for an instrument."""

    metric: Metric
    value: float
    attributes: Attributes


_SECONDS = tuple(0.01 * 2**power for power in range(14))
_LONG = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0)

INSTRUMENTS: Mapping[Metric, Instrument] = {
    Metric.OPERATION_DURATION: Instrument("s", "Duration of calls of models.", _SECONDS),
    Metric.TOKEN_USAGE: Instrument("{token}", "Tokens of a call of a model.", tuple(4.0**power for power in range(14))),
    Metric.TOOL_DURATION: Instrument("s", "Duration of tries of tools.", _SECONDS),
    Metric.AGENT_DURATION: Instrument("s", "Duration of segments of runs of agents.", _LONG),
    Metric.WORKFLOW_DURATION: Instrument("s", "Duration of segments of runs of workflows.", _LONG),
    Metric.NODE_DURATION: Instrument("s", "Duration of tries of nodes.", _SECONDS),
    Metric.WAIT_DURATION: Instrument("s", "Duration of waits that are over.", _LONG),
    Metric.RUNS: Instrument("{run}", "Runs that have ended."),
    Metric.DECISIONS: Instrument("{decision}", "Decisions whether to go on."),
    Metric.RETRIES: Instrument("{retry}", "Tries that failed and are made again."),
    Metric.COST: Instrument("{USD}", "Cost of calls of models that have a price."),
}
"""The instruments that spans are counted with."""

_OPERATIONS = {
    Operation.CHAT: (Metric.OPERATION_DURATION, (Name.PROVIDER, Name.REQUEST_MODEL, Name.RESPONSE_MODEL)),
    Operation.EXECUTE_TOOL: (Metric.TOOL_DURATION, (Name.TOOL_NAME, Own.EFFECT)),
    Operation.INVOKE_AGENT: (Metric.AGENT_DURATION, (Name.AGENT_NAME,)),
    Operation.INVOKE_WORKFLOW: (Metric.WORKFLOW_DURATION, (Name.WORKFLOW_NAME,)),
}
_TOKENS = {"input": Name.INPUT_TOKENS, "output": Name.OUTPUT_TOKENS}


def measures_of(span: Span) -> Iterator[Measure]:
    """Yield what a span adds."""
    about, seconds = span.attributes, (span.end - span.start) / 1e6
    # No span says its own kind but by what it has: a wait its kind, a call or a segment its operation, a try its node.
    if Own.WAIT in about:
        yield Measure(Metric.WAIT_DURATION, seconds, _of(about, Own.WAIT))
    elif Name.OPERATION in about:
        yield from _of_operation(span, Operation(str(about[Name.OPERATION])), seconds)
    elif Own.EFFECT_ID in about and _has_duration(about):
        yield Measure(Metric.NODE_DURATION, seconds, _of(about, Own.NODE) | _error(about))


def _of_operation(span: Span, operation: Operation, seconds: float) -> Iterator[Measure]:
    about = span.attributes
    metric, names = _OPERATIONS[operation]
    common = _of(about, Name.OPERATION, *names)
    if _has_duration(about):
        yield Measure(metric, seconds, common | _error(about))
    if operation is Operation.CHAT:
        for kind, name in _TOKENS.items():
            if isinstance(tokens := about.get(name), int):
                yield Measure(Metric.TOKEN_USAGE, tokens, common | {Name.TOKEN_TYPE.value: kind})
        if isinstance(cost := about.get(Own.COST), float):
            yield Measure(Metric.COST, cost, _of(about, Name.PROVIDER, Name.REQUEST_MODEL))
    elif operation is not Operation.EXECUTE_TOOL:
        yield from _of_segment(span)


def _of_segment(span: Span) -> Iterator[Measure]:
    about = span.attributes
    who = _of(about, Name.AGENT_NAME, Name.WORKFLOW_NAME)
    if Own.STOP_REASON in about:
        yield Measure(Metric.RUNS, 1, who | _of(about, Own.STATUS, Own.STOP_REASON))
    for event in span.events:
        if event.name == Own.DECISION:
            yield Measure(Metric.DECISIONS, 1, who | _of(event.attributes, Own.RESOLVED_BY, Own.DECISION))
        elif event.name == Own.RETRY:
            yield Measure(Metric.RETRIES, 1, who | _of(event.attributes, Name.ERROR_TYPE))


def _has_duration(about: Attributes) -> bool:
    status = about.get(Own.STATUS)
    return status != "suspended" and not (status == "interrupted" and about.get(Own.STOP_REASON, "crash") == "crash")


def _error(about: Attributes) -> dict[str, Attribute]:
    kind = about.get(Name.ERROR_TYPE)
    if kind is None and about.get(Own.STATUS) == "interrupted":
        kind = about.get(Own.STOP_REASON)
    return {} if kind is None else {Name.ERROR_TYPE.value: kind}


def _of(about: Attributes, *names: str) -> dict[str, Attribute]:
    return {str(name): about[name] for name in names if name in about}
