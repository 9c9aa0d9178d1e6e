"""Evaluations: scores of recorded runs, and comparisons of another agent with them."""

from steptrail.domain.shared.events import ScoreValue
from steptrail.interfaces.python.evals.blocking import compare_blocking
from steptrail.interfaces.python.evals.comparing import compare
from steptrail.interfaces.python.evals.judging import ComparisonJudge, ComparisonJudges, JudgeAnswer, JudgeFunction
from steptrail.interfaces.python.evals.report import (
    ComparedPair,
    ComparedRun,
    ComparisonReport,
    JudgeReport,
    Score,
    SpentTogether,
)
from steptrail.projections.scores import RecordedScore

__all__ = [
    "ComparedPair",
    "ComparedRun",
    "ComparisonJudge",
    "ComparisonJudges",
    "ComparisonReport",
    "JudgeAnswer",
    "JudgeFunction",
    "JudgeReport",
    "RecordedScore",
    "Score",
    "ScoreValue",
    "SpentTogether",
    "compare",
    "compare_blocking",
]
