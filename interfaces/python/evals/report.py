"""The report of a comparison: pair by pair, for each judge, and the bills of both sides."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.events import ScoreValue
from steptrail.projections.rendering import dollars, many
from steptrail.projections.scores import value_text
from steptrail.runtime.agent.result import RunResult

_EVEN = 0.5
"""The number of a judge who finds both equally good."""


@dataclass(frozen=True, slots=True)
class Score:
    """The answer of a judge: a truth value, a number or a label, and why."""

    value: ScoreValue
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One run of a pair: where it is, how it ended, and what it has used. `cost_usd` is None without prices."""

    session: str
    execution: str
    status: str
    stop_reason: str | None
    steps: int
    tokens: int
    cost_usd: float | None
    active_seconds: float

    @classmethod
    def of(cls, result: RunResult[Any]) -> "ComparedRun":
        """Return the side of a result."""
        state = result.state
        return cls(
            session=result.session_id,
            execution=result.execution_id or "",
            status=result.status.value,
            stop_reason=None if result.stop_reason is None else result.stop_reason.value,
            steps=state.step_count,
            tokens=state.usage.total,
            cost_usd=None if state.cost is None else float(state.cost.usd),
            active_seconds=state.cumulative_execution_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPair:
    """One recorded session beside the run of the other agent.

    `scores` are those of the judges by their names, and `judging` what the judges that are agents have used. `problems`
    say what could not be done: by the name of a judge, or under an empty one, where there is nothing to judge.
    """

    session: str
    original: ComparedRun | None = None
    candidate: ComparedRun | None = None
    scores: Mapping[str, Score] = field(default_factory=dict[str, Score])
    judging: Sequence[ComparedRun] = ()
    problems: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentTogether:
    """The bill of some runs together. `cost_usd` is a lower bound if `unpriced` of them have no cost."""

    runs: int
    steps: int
    tokens: int
    cost_usd: float
    unpriced: int
    active_seconds: float

    @classmethod
    def of(cls, sides: Iterable[ComparedRun]) -> "SpentTogether":
        """Return the sums."""
        every = list(sides)
        return cls(
            runs=len(every),
            steps=sum(each.steps for each in every),
            tokens=sum(each.tokens for each in every),
            cost_usd=sum(each.cost_usd or 0.0 for each in every),
            unpriced=sum(each.cost_usd is None for each in every),
            active_seconds=sum(each.active_seconds for each in every),
        )

    def __str__(self) -> str:
        """Return it on one line."""
        cost = f", {'at least ' if self.unpriced else ''}{dollars(self.cost_usd)}" if self.unpriced < self.runs else ""
        return f"{many(self.runs, 'run')}, {many(self.steps, 'step')}, {many(self.tokens, 'token')}{cost}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReport:
    """The findings of one judge. The other agent wins with a yes and above 0.5, loses with a no and below it.

    `mean` is that of the numbers, a yes as 1 and a no as 0; None without any. `labels` counts the labels.
    """

    judge: str
    judged: int
    wins: int
    ties: int
    losses: int
    mean: float | None
    labels: Mapping[str, int]
    failed: int

    @classmethod
    def of(cls, judge: str, pairs: Sequence[ComparedPair]) -> "JudgeReport":
        """Return what a judge found of all pairs."""
        values = [pair.scores[judge].value for pair in pairs if judge in pair.scores]
        numbers = [float(each) for each in values if not isinstance(each, str)]
        labels = Counter(each for each in values if isinstance(each, str))
        return cls(
            judge=judge,
            judged=len(values),
            wins=sum(each > _EVEN for each in numbers),
            ties=sum(each == _EVEN for each in numbers),
            losses=sum(each < _EVEN for each in numbers),
            mean=sum(numbers) / len(numbers) if numbers else None,
            labels=dict(sorted(labels.items(), key=lambda each: (-each[1], each[0]))),
            failed=sum(judge in pair.problems for pair in pairs),
        )

    def __str__(self) -> str:
        """Return it on one line."""
        mean = "" if self.mean is None else f", mean {self.mean:.3g}"
        labels = "".join(f", {label} {count}" for label, count in self.labels.items())
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.judge}: {self.wins} won, {self.ties} even, {self.losses} lost{mean}{labels}{failed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonReport:
    """The whole of a comparison. The sums of `original` and `candidate` are over the pairs that could be judged."""

    pairs: Sequence[ComparedPair]
    judges: Mapping[str, JudgeReport]
    original: SpentTogether
    candidate: SpentTogether
    judging: SpentTogether

    @classmethod
    def of(cls, pairs: Sequence[ComparedPair], judges: Iterable[str]) -> "ComparisonReport":
        """Return what these pairs come to."""
        judged = [pair for pair in pairs if "" not in pair.problems]
        return cls(
            pairs=pairs,
            judges={name: JudgeReport.of(name, pairs) for name in judges},
            original=SpentTogether.of(pair.original for pair in judged if pair.original is not None),
            candidate=SpentTogether.of(pair.candidate for pair in judged if pair.candidate is not None),
            judging=SpentTogether.of(side for pair in pairs for side in pair.judging),
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return cast("dict[str, JsonValue]", asdict(self))

    def __str__(self) -> str:
        """Return it as lines for people."""
        lines = [str(each) for each in self.judges.values()]
        lines += [f"original   {self.original}", f"candidate  {self.candidate}"]
        lines += [f"judging    {self.judging}"] if self.judging.runs else []
        for pair in self.pairs:
            if pair.candidate is not None:
                said = ", ".join(f"{name} {value_text(score.value)}" for name, score in pair.scores.items())
                lines.append(f"{pair.session} -> {pair.candidate.session}: {said or 'not judged'}")
            lines += [f"{pair.session}: {f'{name}: ' if name else ''}{why}" for name, why in pair.problems.items()]
        return "\n".join(lines)
