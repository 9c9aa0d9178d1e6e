"""Live updates of workflows between processes: several nodes write at once, and each is seen from its beginning."""

import asyncio

from hypothesis import given, strategies as st

from steptrail.domain.live import NodeDelta, NodeProgress
from tests.profile import examples
from tests.unit.kernel.test_live_relay import Net, Process


def of_node(node: str, text: str = "", *, attempt: int = 1, is_final: bool = False) -> NodeDelta:
    return NodeDelta(
        session_id="f", execution_id="f:1", node=node, visit=1, attempt=attempt, text=text, is_final=is_final
    )


def text_of(process: Process, node: str, attempt: int = 1) -> str:
    pieces = [each for each in process.seen if isinstance(each, NodeDelta)]
    return "".join(
        "." if each.is_final else each.text for each in pieces if (each.node, each.attempt) == (node, attempt)
    )


async def test_nodes_that_write_at_once_all_arrive_with_their_ends_and_none_is_kept_for_ever() -> None:
    net = Net()
    here, there = net.process(), net.process()
    here.fanout.watcher("flow:f", None, lambda: 3)
    there.follow("flow:f")
    net.settle()
    nodes = [f"n{number}" for number in range(30)]
    for word in range(20):
        for node in nodes:
            here.fanout.tell("flow:f", 3, of_node(node, f"{word} "))
        net.settle(0.3)
    for node in nodes:
        here.fanout.tell("flow:f", 4, of_node(node, is_final=True))
    net.settle(30)
    whole = "".join(f"{word} " for word in range(20)) + "."
    assert [text_of(there, node) for node in nodes] == [whole] * len(nodes)
    late = net.process()
    late.follow("flow:f")
    net.settle(5)
    assert late.seen == []


async def test_a_try_that_broke_off_is_not_mixed_with_the_next_one_nor_with_its_neighbour() -> None:
    net = Net()
    here, there = net.process(), net.process()
    here.fanout.watcher("flow:f", None, lambda: 3)
    there.follow("flow:f")
    net.settle()
    for node in ("a", "b"):
        here.fanout.tell("flow:f", 3, of_node(node, f"{node} begins"))
    net.settle(1)
    here.fanout.forget("flow:f", ("a", 1, None))
    here.fanout.tell("flow:f", 6, of_node("a", "again", attempt=2))
    here.fanout.tell("flow:f", 6, of_node("b", " and goes on"))
    net.settle(1)
    late = Process(net, there.bus, there.fanout)
    late.follow("flow:f")
    assert (text_of(there, "a"), text_of(there, "a", 2), text_of(there, "b")) == (
        "a begins",
        "again",
        "b begins and goes on",
    )
    assert (text_of(late, "a"), text_of(late, "a", 2), text_of(late, "b")) == ("", "again", "b begins and goes on")


async def test_the_progress_of_nodes_comes_and_that_of_an_ended_one_is_not_told_to_who_comes_then() -> None:
    net = Net()
    here, there = net.process(), net.process()
    here.fanout.watcher("flow:f", None, lambda: 5)
    there.follow("flow:f")
    net.settle()
    news = [
        NodeProgress(session_id="f", execution_id="f:1", node=node, visit=1, item=0, attempt=1, message=f"at {node}")
        for node in ("a", "b")
    ]
    for each in news:
        here.fanout.tell("flow:f", 5, each)
    net.settle(1)
    assert there.seen == news
    here.fanout.forget("flow:f", news[0].place)
    late = net.process()
    late.follow("flow:f")
    net.settle(1)
    assert late.seen == news[1:]


async def test_what_is_missing_just_after_all_was_asked_for_anew_is_asked_for_too() -> None:
    net = Net()
    here, there = net.process(), net.process()
    here.fanout.watcher("flow:f", None, lambda: 1)
    there.follow("flow:f")
    net.settle(1)
    for node in ("a", "b"):
        net.loses = lambda: True
        here.fanout.tell("flow:f", 1, of_node(node, f"{node} begins"))
        net.settle(0.3)
        net.loses = lambda: False
        here.fanout.tell("flow:f", 1, of_node(node, " and ends"))
        net.settle(0.3)
    net.settle(5)
    assert [text_of(there, node) for node in ("a", "b")] == ["a begins and ends", "b begins and ends"]


@given(st.data())
@examples(100)
def test_whatever_is_lost_each_node_is_seen_from_its_beginning_and_at_the_end_whole(data: st.DataObject) -> None:
    async def play() -> None:
        net = Net()
        here, there = net.process(), net.process()
        here.fanout.watcher("flow:f", None, lambda: 1)
        there.follow("flow:f")
        net.settle(1)
        nodes, attempts = ("a", "b", "c"), dict.fromkeys("abc", 1)
        said = {(node, 1): "" for node in nodes}
        for _ in range(data.draw(st.integers(0, 30))):
            node = data.draw(st.sampled_from(nodes))
            attempt = attempts[node]
            match data.draw(st.sampled_from(["say", "say", "break", "lose", "keep", "reconnect"])):
                case "say":
                    text = data.draw(st.text("xy\u8336", max_size=150))
                    said[node, attempt] += text
                    here.fanout.tell("flow:f", attempt, of_node(node, text, attempt=attempt))
                case "break":
                    here.fanout.forget("flow:f", (node, 1, None))
                    attempts[node] += 1
                    said[node, attempt + 1] = ""
                case "reconnect":
                    for bus in net.buses:
                        assert bus.traffic is not None
                        bus.traffic.connected()
                case what:
                    net.loses = (lambda: True) if what == "lose" else (lambda: False)
            net.settle(data.draw(st.sampled_from([0, 0.05, 0.5])))
            for (who, number), whole in said.items():
                assert whole.startswith(text_of(there, who, number))
        net.loses = lambda: False
        for node in nodes:
            here.fanout.tell("flow:f", 99, of_node(node, "end", attempt=attempts[node]))
        net.settle(60)
        for node in nodes:
            assert text_of(there, node, attempts[node]) == said[node, attempts[node]] + "end"

    asyncio.run(play())
