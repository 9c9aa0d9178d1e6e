"""Live updates between processes: what is shown elsewhere is what was written, from its beginning, or nothing."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from hypothesis import given, strategies as st
from msgspec.structs import replace

from steptrail.domain.live import LiveUpdate, ReplyDelta, ToolProgress, UpdatesLost
from steptrail.runtime.kernel.live_bus import Letter, LiveTraffic
from steptrail.runtime.kernel.live_fanout import LiveFanout
from steptrail.runtime.kernel.live_inbox import LiveInbox
from tests.profile import examples

MOST_BYTES = 400


class Net:
    """Carries letters between processes when it is told to, by a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.buses: list[Bus] = []
        self.sent: list[Letter] = []
        self.loses: Callable[[], bool] = lambda: False

    def process(self) -> "Process":
        bus = Bus(self)
        return Process(self, bus, LiveFanout(bus=bus, clock=lambda: self.now))

    def settle(self, seconds: float = 0.0) -> None:
        """Carry all that is due until nothing is, and then for so long."""
        end = self.now + seconds
        while True:
            waits = [bus.turn() for bus in self.buses]
            if any(wait == 0 for wait in waits):
                continue
            soonest = min((wait for wait in waits if wait is not None), default=None)
            if soonest is None or self.now + soonest > end:
                self.now = end
                return
            self.now += soonest


class Bus:
    most_bytes = MOST_BYTES

    def __init__(self, net: Net) -> None:
        self._net = net
        self.traffic: LiveTraffic | None = None
        self.inbox: list[str] = []

    def begin(self, traffic: LiveTraffic) -> None:
        if self.traffic is None:
            self.traffic = traffic
            self._net.buses.append(self)
            traffic.connected()

    def wake(self) -> None:
        pass

    def close(self) -> None:
        pass

    def turn(self) -> float | None:
        assert self.traffic is not None
        letters, wait = self.traffic.due()
        for letter in letters:
            self._net.sent.append(letter)
            assert len(letter.text.encode()) <= MOST_BYTES
            for bus in self._net.buses:
                if bus.traffic is not None and letter.to in (None, bus.traffic.name) and not self._net.loses():
                    bus.inbox.append(letter.text)
        heard, self.inbox = self.inbox, []
        for text in heard:
            self.traffic.heard(text)
        return 0 if letters or heard else wait


@dataclass
class Process:
    net: Net
    bus: Bus
    fanout: LiveFanout
    inbox: LiveInbox | None = None
    seen: list[LiveUpdate] = field(default_factory=list[LiveUpdate])

    def follow(self, session: str = "a") -> None:
        self.inbox = self.fanout.join(session, self._take)
        self._take()

    def stop(self) -> None:
        assert self.inbox is not None
        self.fanout.leave(self.inbox)

    def _take(self) -> None:
        while self.inbox is not None and self.inbox.version is not None:
            update = self.inbox.take()
            assert not isinstance(update, UpdatesLost)
            self.seen.append(update)

    @property
    def text(self) -> str:
        return "".join(each.text for each in self.seen if isinstance(each, ReplyDelta))

    async def came(self) -> None:
        await asyncio.sleep(0)  # another thread's calls are made by the loop
        self._take()


def piece(text: str = "", *, step: int = 1, is_final: bool = False, session: str = "a") -> ReplyDelta:
    return ReplyDelta(
        session_id=session, execution_id=f"{session}:1", step=step, attempt=1, text=text, is_final=is_final
    )


def progress(message: str, *, position: int = 0, done: float | None = None) -> ToolProgress:
    return ToolProgress(
        session_id="a",
        execution_id="a:1",
        step=1,
        position=position,
        tool="scan",
        call_id="c1",
        message=message,
        done=done,
    )


async def test_a_follower_elsewhere_sees_the_words_and_the_end() -> None:
    net = Net()
    here, there = net.process(), net.process()
    there.follow()
    assert here.fanout.watcher("a", None, lambda: 3) is None  # nobody has said so yet
    net.settle()
    watcher = here.fanout.watcher("a", None, lambda: 3)
    assert watcher is not None
    for word in ("It ", "is ", "late."):
        watcher(piece(word))
        net.settle(0.2)
    watcher(piece(is_final=True))
    net.settle(1)
    assert there.text == "It is late."
    assert there.seen[-1] == piece(is_final=True)
    assert sum(isinstance(each, ReplyDelta) and each.is_final for each in there.seen) == 1


async def test_nothing_is_sent_that_nobody_wants() -> None:
    net = Net()
    here, there = net.process(), net.process()
    there.follow("b")
    here.fanout.watcher("a", None, lambda: 3)
    net.settle()
    net.sent.clear()
    here.fanout.tell("a", 3, piece("secret"))
    net.settle(5)
    assert net.sent == []


async def test_who_comes_in_the_middle_sees_the_beginning() -> None:
    net = Net()
    here, there = net.process(), net.process()
    here.fanout.watcher("a", None, lambda: 3)
    long = "".join(f"word {i} " for i in range(300))
    here.fanout.tell("a", 3, piece(long))
    there.follow()
    net.settle(20)
    here.fanout.tell("a", 3, piece("and more"))
    net.settle(1)
    assert there.text == long + "and more"
    second = Process(net, there.bus, there.fanout)
    second.follow()  # of the same process: it is there already
    assert second.text == long + "and more"


async def test_a_reply_that_is_over_is_not_sent_to_who_comes_then() -> None:
    for end in ("whole", "broken"):
        net = Net()
        here, there = net.process(), net.process()
        here.fanout.watcher("a", None, lambda: 3)
        there.follow()
        net.settle()
        here.fanout.tell("a", 3, piece("gone"))
        net.settle(1)
        if end == "whole":
            here.fanout.tell("a", 3, piece(is_final=True))
        else:
            here.fanout.forget("a")
        net.settle(1)
        late, elsewhere = Process(net, there.bus, there.fanout), net.process()
        late.follow()
        elsewhere.follow()
        net.settle(30)
        assert (there.text, late.text, elsewhere.text) == ("gone", "", ""), end


async def test_one_session_has_ten_letters_a_second_at_most_however_fast_it_is_written() -> None:
    net = Net()
    here, there = net.process(), net.process()
    here.fanout.watcher("a", None, lambda: 3)
    there.follow()
    net.settle()
    net.sent.clear()
    for i in range(1000):
        here.fanout.tell("a", 3, piece("x" * (i % 3)))
        net.settle(0.01)
    texts = [letter for letter in net.sent if letter.to is not None]
    assert 90 < len(texts) <= 102
    net.settle(1)
    assert there.text == "x" * 999


async def test_a_line_that_was_down_begins_anew_and_shows_nothing_twice() -> None:
    net = Net()
    here, there = net.process(), net.process()
    here.fanout.watcher("a", None, lambda: 3)
    there.follow()
    net.settle()
    here.fanout.tell("a", 3, piece("one "))
    net.settle(1)
    net.loses = lambda: True
    here.fanout.tell("a", 3, piece("two "))
    net.settle(1)
    net.loses = lambda: False
    here.fanout.tell("a", 3, piece("three"))
    net.settle(0.05)
    assert there.text == "one "  # a gap is not shown
    net.settle(5)
    assert there.text == "one two three"
    assert there.bus.traffic is not None
    there.bus.traffic.connected()
    net.settle(5)
    assert there.text == "one two three"


async def test_what_was_lost_with_the_line_of_the_writer_comes_when_it_stands_again_also_when_he_says_no_more() -> None:
    net = Net()
    here, there = net.process(), net.process()
    here.fanout.watcher("a", None, lambda: 3)
    there.follow()
    net.settle()
    net.loses = lambda: True
    here.fanout.tell("a", 3, piece("one two"))
    net.settle(1)
    net.loses = lambda: False
    assert here.bus.traffic is not None
    here.bus.traffic.connected()
    net.settle(1)
    assert there.text == "one two"


async def test_who_stops_following_is_sent_nothing_after_a_while() -> None:
    net = Net()
    here, there = net.process(), net.process()
    here.fanout.watcher("a", None, lambda: 3)
    there.follow()
    net.settle(60)
    assert here.fanout.watcher("a", None, lambda: 3) is not None
    there.stop()
    net.settle(60)
    assert here.fanout.watcher("a", None, lambda: 3) is None


async def test_a_run_that_was_taken_over_does_not_speak_into_the_reply_of_its_successor() -> None:
    net = Net()
    old, new, there = net.process(), net.process(), net.process()
    for each in (old, new):
        each.fanout.watcher("a", None, lambda: 3)
    there.follow()
    net.settle()
    old.fanout.tell("a", 3, piece("old "))
    net.settle(1)
    new.fanout.tell("a", 8, replace(piece("new "), attempt=2))
    net.settle(1)
    old.fanout.tell("a", 3, piece("and late"))
    new.fanout.tell("a", 8, replace(piece("words"), attempt=2))
    net.settle(5)
    assert there.text == "old new words"


async def test_progress_comes_and_of_much_of_it_the_newest() -> None:
    net = Net()
    here, there = net.process(), net.process()
    here.fanout.watcher("a", None, lambda: 5)
    there.follow()
    net.settle()
    for i in range(50):
        here.fanout.tell("a", 5, progress(f"shelf {i}", done=i))
    here.fanout.tell("a", 5, progress("x" * 5_000, position=1, done=float("nan")))
    net.settle(1)
    shown = [each for each in there.seen if isinstance(each, ToolProgress)]
    assert [each for each in shown if each.position == 0][-1] == progress("shelf 49", done=49)
    net.settle(1)


async def test_hostile_text_arrives_as_it_is_but_for_halves_of_characters() -> None:
    net = Net()
    here, there = net.process(), net.process()
    here.fanout.watcher("a", None, lambda: 3)
    there.follow()
    net.settle()
    hostile = "\0\x1b[2J'; DROP TABLE events; --\"\\\u2028</script>\U0001f375" * 20
    here.fanout.tell("a", 3, piece(hostile + "\ud83c"))
    net.settle(30)
    assert there.text == hostile + "?"


async def test_what_is_not_understood_is_left_out() -> None:
    net = Net()
    there = net.process()
    there.follow()
    net.settle()
    assert there.bus.traffic is not None
    for text in ("", "{}", "[" * 100_000, '{"type":"text","session":"a"}', '{"type":"news"}', "\ud800"):
        there.bus.traffic.heard(text)
    other = msgspec.json.encode({"type": "text", "session": "a", "version": 1, "key": ["a:1", 1, 1], "at": -5})
    there.bus.traffic.heard(other.decode())
    assert there.seen == []


@st.composite
def stories(draw: st.DrawFn) -> Sequence[tuple[str, str]]:
    """What happens, in order: words, ends, followers who come and go, waits."""
    step = st.tuples(
        st.sampled_from(["say", "say", "say", "end", "break", "follow", "leave", "lose", "keep", "reconnect", "wait"]),
        st.text(max_size=200),
    )
    return draw(st.lists(step, max_size=40))


@given(stories())
@examples(200)
def test_whatever_is_lost_a_follower_sees_a_beginning_of_each_reply_and_at_the_end_all_of_the_last(
    story: Sequence[tuple[str, str]],
) -> None:
    async def play() -> None:
        net = Net()
        here, there = net.process(), net.process()
        here.fanout.watcher("a", None, lambda: 1)
        there.follow()
        net.settle(1)
        step, replies, is_following = 1, {1: ""}, True
        for what, text in story:
            if what == "say":
                replies[step] += text.encode(errors="replace").decode()
                here.fanout.tell("a", step, piece(text, step=step))
            elif what in {"end", "break"}:
                if what == "end" and replies[step]:
                    here.fanout.tell("a", step, piece(step=step, is_final=True))
                else:
                    here.fanout.forget("a")
                step += 1
                replies[step] = ""
            elif what == "follow" and not is_following:
                there.seen.clear()
                there.follow()
                is_following = True
            elif what == "leave" and is_following:
                there.stop()
                is_following = False
            elif what in {"lose", "keep"}:
                net.loses = (lambda: True) if what == "lose" else (lambda: False)
            elif what == "reconnect":
                for bus in net.buses:
                    assert bus.traffic is not None
                    bus.traffic.connected()
            net.settle(len(text) / 400)
            if is_following:
                for number, whole in replies.items():
                    assert whole.startswith(said(there, number))
        if is_following:
            net.loses = lambda: False
            here.fanout.tell("a", step, piece("last words", step=step))
            net.settle(60)
            assert said(there, step) == replies[step] + "last words"

    asyncio.run(play())


def said(process: Process, step: int) -> str:
    return "".join(each.text for each in process.seen if isinstance(each, ReplyDelta) and each.step == step)
