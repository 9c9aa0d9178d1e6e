"""What readers of a log saw and writers were told, held against the log as somebody reads it who had no part in it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.harness.store_urls import opened
from tests.harness.tailing import Seen, Shore, tag_of


@dataclass(frozen=True, slots=True)
class Tide:
    """What readers saw and writers were told, held against the log. All but the first two are nothing, or it is broken.

    `missed` and `repeated` count over all readers; `out_of_order` counts events that a reader saw before an earlier one
    of the same session; `lost` are events that a writer was told are stored and that are not there exactly once; `gaps`
    counts versions that a session lacks.
    """

    events: int
    readers: int
    missed: int
    repeated: int
    out_of_order: int
    lost: int
    gaps: int

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken

    @property
    def broken(self) -> int:
        """How often a promise was broken."""
        return self.missed + self.repeated + self.out_of_order + self.lost + self.gaps


def judge_tide(shore: Shore, log: Mapping[Seen, str], writers: Sequence[str], readers: Sequence[str]) -> Tide:
    """Judge a tide by its whole log, as `stored` returns it."""
    told = [tag for writer in writers for tag in shore.acknowledged(writer).read_text(encoding="utf-8").split()]
    there = Counter(log.values())
    seen = {reader: _seen(shore.seen(reader).read_text(encoding="utf-8")) for reader in readers}
    return Tide(
        events=len(log),
        readers=len(readers),
        missed=sum(len(log.keys() - set(events)) for events in seen.values()),
        repeated=sum(len(events) - len(set(events)) for events in seen.values()),
        out_of_order=sum(_out_of_order(events) for events in seen.values()),
        lost=sum(there[tag] != 1 for tag in told),
        gaps=_out_of_order(sorted(log, key=lambda each: (each.stream, each.version))),
    )


async def stored(shore: Shore) -> dict[Seen, str]:
    """Return the log of the shore's sessions, with what each event says."""
    store = opened(shore.url)
    log: dict[Seen, str] = {}
    async for position, stream, record in store.log(after=shore.start):
        if stream in shore.streams and (tag := tag_of(record.event)) is not None:
            log[Seen(position, stream, record.version)] = tag
    faults = [fault for stream in shore.streams if (fault := await store.verify(stream)) is not None]
    await store.close()
    assert not faults, f"a digest does not verify: {faults[0]}"
    return log


def _seen(text: str) -> list[Seen]:
    lines = (line.split() for line in text.splitlines())
    return [Seen(int(position), stream, int(version)) for position, stream, version in lines]


def _out_of_order(events: Sequence[Seen]) -> int:
    at: Counter[str] = Counter()
    count = 0
    for _, stream, version in events:
        count += version != at[stream] + 1
        at[stream] = max(at[stream], version)
    return count
