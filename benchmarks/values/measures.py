"""Processor time of what is done with a value, memory of one, and what it costs to import sixty classes of each form.

In a pass the forms take turns at the same work, so whatever else loads the machine loads them all. Ratios are those of
one pass, and of them the median and the quartiles are told.
"""

import gc
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median, quantiles

import msgspec

from benchmarks.meter import keeping_bytecode, run_process
from benchmarks.values import structs
from benchmarks.values.forms import FORMS, READS, Form, Sample
from steptrail.domain.storable import storable

__all__ = ["OPERATIONS", "Ratio", "checks", "imports", "memory", "times"]

OPERATIONS = ("construct", "encode", "decode", "read", "compare")
_LEAST_SECONDS = 0.004
_CLASSES = 60

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Microseconds of one piece of work, and what part of the first form's time in the same pass it took."""

    microseconds: float
    ratio: float
    quartiles: tuple[float, float]


def times(sample: Sample, operation: str, passes: int) -> list[Ratio]:
    """Measure one operation on one event, in every form."""
    return _in_turns([_work(form, sample, operation) for form in FORMS], passes)


def checks(passes: int) -> dict[str, list[Ratio]]:
    """Measure a struct against the same one with its checks in `__post_init__`, for usage and for a vote."""
    context = {"currentSteps": 3, "maxSteps": 20}
    usage, vote = structs.Usage, structs.Vote
    named = {
        "usage: not checked": lambda: usage(input=10, output=10),
        "usage: five counts compared with 0": lambda: _CheckedUsage(input=10, output=10),
        "vote: not checked": lambda: vote(criterion_class="StepsLimit", context=context),
        "vote: its context encoded": lambda: _EncodedVote(criterion_class="StepsLimit", context=context),
        "vote: its context walked": lambda: _WalkedVote(criterion_class="StepsLimit", context=context),
    }
    found = list(zip(named, _in_turns(list(named.values())[:2], passes), strict=False))
    found += zip(list(named)[2:], _in_turns(list(named.values())[2:], passes), strict=True)
    return {name: [ratio] for name, ratio in found}


def memory(sample: Sample, count: int) -> list[float]:
    """Return the bytes that one decoded event takes, in every form."""
    found: list[float] = []
    for form in FORMS:
        decode = form.decoders[sample.type]
        decode(sample.written)
        gc.collect()
        tracemalloc.start()
        held = [decode(sample.written) for _ in range(count)]
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        found.append((taken - sys.getsizeof(held)) / count)
    return found


def imports(passes: int) -> dict[str, tuple[float, float, float]]:
    """Return milliseconds of processor time beyond `pass`, with quartiles, for libraries and sixty classes of each."""
    with tempfile.TemporaryDirectory() as folder, keeping_bytecode() as environment:
        for name, text in _modules().items():
            Path(folder, f"{name}.py").write_text(text, encoding="utf-8")
        environment["PYTHONPATH"] = f"{folder}:{Path(__file__).parents[2]}"
        codes = {name: f"import {name}" for name in ("orjson", "msgspec", "pydantic", *_modules())}

        def cpu(code: str) -> float:
            return run_process([sys.executable, "-c", code], environment=environment)[0].cpu * 1000

        for code in codes.values():
            cpu(code)  # compiles
        taken: dict[str, list[float]] = {name: [] for name in codes}
        for _ in range(passes):
            nothing = min(cpu("pass") for _ in range(2))
            for name, code in codes.items():
                taken[name].append(cpu(code) - nothing)
    return {name: (median(found), *_quartiles(found)) for name, found in taken.items()}


def _in_turns(works: Sequence[Work], passes: int) -> list[Ratio]:
    gc.collect()
    repeats = max(_repeats(work, passes) for work in works)
    taken: list[list[float]] = [[] for _ in works]
    for number in range(passes):
        for which in islice(cycle(range(len(works))), number, number + len(works)):
            taken[which].append(_seconds(works[which], repeats) / repeats)
    ratios = [[mine / first for mine, first in zip(each, taken[0], strict=True)] for each in taken]
    return [Ratio(median(each) * 1e6, median(of), _quartiles(of)) for each, of in zip(taken, ratios, strict=True)]


def _quartiles(found: Sequence[float]) -> tuple[float, float]:
    if len(found) == 1:
        return found[0], found[0]
    low, _, high = quantiles(found, n=4, method="inclusive")
    return low, high


def _repeats(work: Work, passes: int) -> int:
    """Return how often the work is done in a pass; in a single one, whose figures say nothing, once."""
    if passes == 1:
        return 1
    repeats = 1
    while (taken := _seconds(work, repeats)) < _LEAST_SECONDS / 4:
        repeats *= 4
    return max(1, round(repeats * _LEAST_SECONDS / taken))


def _seconds(work: Work, repeats: int) -> float:
    turns = range(repeats)
    gc.disable()
    try:
        began = time.process_time()
        for _ in turns:
            work()
        return time.process_time() - began
    finally:
        gc.enable()


def _work(form: Form, sample: Sample, operation: str) -> Work:
    classes, event, decode = form.classes, sample.build(form.classes), form.decoders[sample.type]
    match operation:
        case "construct":
            return lambda: sample.build(classes)
        case "encode":
            return lambda: form.encode(event)
        case "decode":
            return lambda: decode(sample.written)
        case "read":
            look = READS[sample.type]
            return lambda: look(classes, event)
        case _:
            one, other = decode(sample.written), decode(sample.written)
            return lambda: one == other


class _CheckedUsage(structs.Usage, frozen=True):
    def __post_init__(self) -> None:
        if min(self.input, self.output, self.cache_write, self.cache_read, self.reasoning) < 0:
            raise ValueError("a count of tokens is less than 0")


class _EncodedVote(structs.Vote, frozen=True):
    def __post_init__(self) -> None:
        msgspec.json.encode(self.context)


class _WalkedVote(structs.Vote, frozen=True):
    def __post_init__(self) -> None:
        storable(self.context, "context")


def _modules() -> dict[str, str]:
    """Return modules of sixty classes each that are ready to read JSON when they have been imported."""
    names = [f"E{number}" for number in range(_CLASSES)]
    plain = """\
    number: {count}
    name: str
    seconds: {seconds}
    reason: str | None = None
    ok: bool = False
"""
    return {
        "by_pydantic": _module(
            "from pydantic import BaseModel, ConfigDict, Field\n"
            "class V(BaseModel):\n    model_config = ConfigDict(frozen=True, extra='forbid', allow_inf_nan=False)\n",
            "class {name}(V):\n" + plain.format(count="int = Field(ge=0)", seconds="float = Field(ge=0)"),
            names,
            "",
        ),
        "by_msgspec": _module(
            "from typing import Annotated\nfrom msgspec import Meta, Struct\nfrom msgspec.json import Decoder\n"
            "class V(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):\n    pass\n",
            "class {name}(V):\n"
            + plain.format(count="Annotated[int, Meta(ge=0)]", seconds="Annotated[float, Meta(ge=0)]"),
            names,
            "D = [Decoder(cls) for cls in ({names})]\n",
        ),
        "by_dataclass": _module(
            "from dataclasses import dataclass\nfrom typing import Annotated\n"
            "from benchmarks.values.plain_codec import Least, PlainCodec\n",
            "@dataclass(frozen=True, slots=True, kw_only=True)\nclass {name}:\n"
            + plain.format(count="Annotated[int, Least(0)]", seconds="Annotated[float, Least(0)]"),
            names,
            "D = [PlainCodec(cls) for cls in ({names})]\n",
        ),
    }


def _module(head: str, cls: str, names: Sequence[str], tail: str) -> str:
    return head + "".join(cls.format(name=name) for name in names) + tail.format(names=", ".join(names))
