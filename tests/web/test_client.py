"""The reference client against servers, storage and pages that misbehave, in Node and without any waiting."""

import base64
import json
import subprocess
from typing import Any

import pytest

from tests.examples.running import ROOT
from tests.npm import command

CLIENT = ROOT / "interfaces" / "http" / "steptrail.js"
SCENE = """
const { SteptrailSession } = await import(CLIENT);
const waits = [], asked = [], views = [], lines = [], told = [];
Math.random = () => 1;
// Who waits for less than a silence goes on in the next turn, for twelve times.
globalThis.setTimeout = (work, ms) => {
  if (ms > 40_000) return 0;
  waits.push(ms);
  return waits.length > 12 ? 0 : setImmediate(work);
};
globalThis.clearTimeout = clearImmediate;
console.error = (error) => told.push(String(error));
const kept = new Map();
const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
const stored = { version: 3, status: "completed", messages: [], approvals: [] };
// Turns of the loop and no time: a busy machine makes them slower, and not fewer.
const settled = async () => { for (let turn = 0; turn < 1000; turn++) await new Promise(setImmediate); };
const after = (address) => new URL(address).searchParams.get("after");
const answering = (events) => async (address) => {
  if (!String(address).includes("/events")) return new Response(JSON.stringify(stored));
  asked.push(after(address));
  return events(after(address));
};
const open = () => new Response(new ReadableStream({ start: (line) => lines.push(line) }));
const no = (status, statusText) => new Response("{}", { status, statusText });
const say = (body) => lines.at(-1).enqueue(new TextEncoder().encode(`data: ${JSON.stringify(body)}\\n\\n`));
const follow = (options, show = () => {}) => {
  const onChange = (messages, view) => { views.push(view); show(messages, view); };
  return new SteptrailSession("http://shop/s", onChange, { storage, ...options });
};
const KEY = "steptrail:http://shop/s";
const started = (sequence, previous) => ({ event: "agent.step.started", sequence, previous, data: { step_number: 1 } });
"""


def played(scene: str) -> dict[str, Any]:
    """Return what a scene says at its end."""
    client = base64.b64encode(CLIENT.read_bytes()).decode()
    address = f'const CLIENT = "data:text/javascript;base64,{client}";'
    program = f"{address}\n{SCENE}\n{scene}\nprocess.stdout.write(JSON.stringify(said)); process.exit(0);"
    done = subprocess.run(
        [command("node"), "--input-type=module", "-"], input=program, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("garbage", ["garbage", "", "12", "1.2.3", "-1.2", "1e9.1", "9" * 400 + ".1", "\u0663.\u0661"])
def test_a_last_id_that_is_none_is_forgotten(garbage: str) -> None:
    said = played(f"""
      kept.set(KEY, {json.dumps(garbage)});
      follow({{ fetch: answering((after) => (after === "3" ? open() : no(400, "Bad Request"))) }});
      await settled();
      const said = {{ asked, waits, connected: views.at(-1)?.connected }};
    """)
    assert said == {"asked": ["3"], "waits": [], "connected": True}


def test_a_last_id_that_the_server_cannot_use_is_forgotten_and_what_is_stored_comes_anew() -> None:
    said = played("""
      kept.set(KEY, "12.1");
      stored.version = 9;
      follow({ fetch: answering((after) => (after === "9" ? open() : no(400, "Bad Request"))) });
      await settled();
      const { connected, refused } = views.at(-1);
      const said = { asked, connected, refused };
    """)
    assert said == {"asked": ["12.1", "9"], "connected": True, "refused": None}


def test_who_comes_again_is_not_sent_what_the_stored_conversation_holds() -> None:
    said = played("""
      kept.set(KEY, "7.1");
      stored.version = 20_000;
      follow({ fetch: answering(open) });
      await settled();
      stored.version = 20_001;
      say(started("20001.1", "19998.1"));
      await settled();
      lines.at(-1).close();
      await settled();
      const said = { asked, last: views.at(-1).lastId };
    """)
    assert said == {"asked": ["20000", "20001"], "last": "20001.1"}


@pytest.mark.parametrize(("says", "waits"), [(True, [1000] * 6), (False, [2000, 4000, 8000, 16_000, 30_000, 30_000])])
def test_a_line_that_is_cut_as_soon_as_it_is_open_is_not_asked_for_without_a_rest(says: bool, waits: list[int]) -> None:
    said = played(f"""
      const beat = {{ event: "agent.heartbeat", sequence: "0.0", previous: null, data: {{ every_seconds: 15 }} }};
      const start = (line) => {{
        if ({json.dumps(says)}) line.enqueue(new TextEncoder().encode(`data: ${{JSON.stringify(beat)}}\\n\\n`));
        line.close();
      }};
      const events = answering(() => new Response(new ReadableStream({{ start }})));
      const fetch = async (address) => {{
        const answer = await events(address);
        if (String(address).includes("/events")) return answer;
        for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate); // what is stored takes longer
        return answer;
      }};
      follow({{ fetch }});
      await settled();
      const said = {{ asked: asked.length, waits: waits.slice(0, 6) }};
    """)
    assert said == {"asked": 13, "waits": waits}


@pytest.mark.parametrize(("gaps", "cut"), [([30_000] * 4, 0), ([30_000, 45_000], 1)])
def test_a_conversation_may_take_long_to_come_and_must_not_fall_silent(gaps: list[int], cut: int) -> None:
    said = played(f"""
      let now = 0, count = 0, cut = 0, body;
      const timers = new Map();
      globalThis.setTimeout = (work, ms) => {{ timers.set(++count, [now + ms, work]); return count; }};
      globalThis.clearTimeout = (id) => timers.delete(id);
      AbortSignal.timeout = (ms) => {{
        const asking = new AbortController();
        setTimeout(() => asking.abort(), ms);
        return asking.signal;
      }};
      const fetch = async (address, {{ signal }}) => {{
        if (String(address).includes("/events")) return open();
        signal.addEventListener("abort", () => {{ cut += 1; body.error(signal.reason); }});
        return new Response(new ReadableStream({{ start: (line) => {{ body = line; }} }}));
      }};
      follow({{ fetch }});
      await settled();
      const gaps = {json.dumps(gaps)}, text = JSON.stringify(stored);
      for (const [at, gap] of gaps.entries()) {{
        now += gap;
        for (const [id, [due, work]] of [...timers]) if (due <= now && timers.delete(id)) work();
        if (!cut) body.enqueue(new TextEncoder().encode(at ? " " : text)); // blanks behind the JSON are nothing
        await settled();
      }}
      if (!cut) body.close();
      await settled();
      const said = {{ cut, shown: views.at(-1)?.conversation?.version ?? null }};
    """)
    assert said == {"cut": cut, "shown": None if cut else 3}


@pytest.mark.parametrize("status", [400, 401, 403, 405, 410, 422, 429])
def test_a_server_that_says_no_is_asked_ever_more_slowly_and_the_page_is_told(status: int) -> None:
    said = played(f"""
      follow({{ fetch: answering(() => no({status}, "")) }});
      await settled();
      const said = {{ waits: waits.slice(0, 6), refused: views.at(-1).refused }};
    """)
    assert said == {"waits": [2000, 4000, 8000, 16_000, 30_000, 30_000], "refused": str(status)}


@pytest.mark.parametrize("where", ["/events", "/conversation"])
@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_that_cannot_answer_is_asked_ever_more_slowly_and_has_not_said_no(status: int, where: str) -> None:
    said = played(f"""
      const events = answering(open);
      const fetch = async (address) => (String(address).includes("{where}") ? no({status}, "") : events(address));
      follow({{ fetch }});
      await settled();
      const {{ connected, refused }} = views.at(-1);
      const said = {{ waits: waits.slice(0, 6), connected, refused }};
    """)
    assert said == {"waits": [2000, 4000, 8000, 16_000, 30_000, 30_000], "connected": False, "refused": None}


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_says_when_to_come_again_is_left_in_peace_until_then(status: int) -> None:
    said = played(f"""
      const headers = [{{ "retry-after": "20" }}, {{ "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT" }}];
      const busy = () => new Response("", {{ status: {status}, headers: headers.shift() }});
      const answered = answering(() => (headers.length ? busy() : open()));
      let isDown = 0;
      const fetch = async (address) => {{
        if (headers.length === 1 && isDown++ === 0) throw new TypeError("the line is down");
        return answered(address);
      }};
      follow({{ fetch }});
      await settled();
      const said = {{ waits }};
    """)
    assert said == {"waits": [22_000, 2000, 4000]}


def test_a_time_before_now_to_come_again_is_none() -> None:
    said = played("""
      const busy = () => new Response("", { status: 503, headers: { "retry-after": "-20" } });
      follow({ fetch: answering(busy) });
      await settled();
      const said = { waits: waits.slice(0, 3) };
    """)
    assert said == {"waits": [2000, 4000, 8000]}


@pytest.mark.parametrize("status", [429, 503])
def test_messages_on_a_line_that_is_open_ask_no_sooner_than_the_server_says(status: int) -> None:
    said = played(f"""
      let isBusy = false, fetched = 0;
      const events = answering(open);
      const fetch = async (address) => {{
        if (String(address).includes("/events")) return events(address);
        fetched += 1;
        if (!isBusy) return new Response(JSON.stringify(stored));
        await new Promise(setImmediate); // the other messages come meanwhile
        return new Response("", {{ status: {status}, headers: {{ "retry-after": "100" }} }});
      }};
      follow({{ fetch }});
      await settled();
      [isBusy, fetched] = [true, 0];
      const event = "agent.message", data = {{}};
      const message = (at) => ({{ event, sequence: `${{at}}.1`, previous: `${{at - 1}}.1`, data }});
      for (const at of [4, 5, 6]) say(message(at));
      await settled();
      say(message(7));
      await settled();
      const {{ connected, lastId }} = views.at(-1);
      const said = {{ fetched, connected, lastId }};
    """)
    assert said == {"fetched": 1, "connected": True, "lastId": "7.1"}


def test_a_fetch_that_is_one_too_many_ends_no_line_that_is_open() -> None:
    said = played("""
      let answers = [stored, stored, null, stored];
      const events = answering(open);
      const fetch = async (address) => {
        if (String(address).includes("/events")) return events(address);
        const answer = answers.shift();
        return answer === null ? no(429, "Too Many Requests") : new Response(JSON.stringify(answer ?? stored));
      };
      const session = follow({ fetch });
      await settled();
      await session.refresh();
      const busy = views.at(-1);
      await settled();
      const { connected, refused } = views.at(-1);
      const said = { asked, waits, busy: [busy.connected, busy.refused], now: [connected, refused] };
    """)
    assert said == {"asked": ["3"], "waits": [2000], "busy": [True, "Too Many Requests"], "now": [True, None]}


@pytest.mark.parametrize("told_by", ["what is stored", "the stream"])
def test_what_is_gone_is_shown_no_more_and_what_only_the_page_knows_stays_before_the_first_message(
    told_by: str,
) -> None:
    said = played(f"""
      let isThere = false;
      const pages = [];
      stored.messages = [{{ id: "m1", role: "user", content: "secret" }}];
      const events = answering(() => (isThere ? open() : no(404, "Not Found")));
      const fetch = async (address) => {{
        if (String(address).includes("/events")) return events(address);
        const isGone = !isThere && (told_by === "what is stored" || pages.length === 0);
        return isGone ? no(404, "Not Found") : new Response(JSON.stringify(stored));
      }};
      const told_by = {json.dumps(told_by)};
      const session = follow({{ fetch }}, (messages) => pages.push(messages.map((each) => each.content)));
      session.note("not sent");
      await new Promise(setImmediate);
      const before = [pages.at(-1), views.at(-1).missing];
      isThere = true;
      await settled();
      const shown = pages.at(-1);
      isThere = false;
      lines.at(-1).close();
      for (let turn = 0; turn < 50 && !views.at(-1).missing; turn++) await new Promise(setImmediate);
      const {{ conversation, status, missing }} = views.at(-1);
      const said = {{ before, shown, after: [pages.at(-1), conversation, status, missing] }};
    """)
    assert said == {
        "before": [["not sent"], True],
        "shown": ["not sent", "secret"],
        "after": [[], None, None, True],
    }


def test_a_web_socket_that_is_refused_is_tried_ever_more_slowly_and_the_page_is_told() -> None:
    said = played("""
      class Refused { constructor() { queueMicrotask(() => this.onclose?.()); } close() {} }
      follow({ fetch: answering(open), transport: "websocket", WebSocket: Refused });
      await settled();
      const said = { waits: waits.slice(0, 6), refused: views.at(-1).refused };
    """)
    assert said == {"waits": [2000, 4000, 8000, 16_000, 30_000, 30_000], "refused": "the WebSocket was not opened"}


def test_a_server_without_heartbeats_for_years_has_a_line_that_stays() -> None:
    said = played("""
      const longest = 2 ** 31 - 1, wait = globalThis.setTimeout;
      globalThis.setTimeout = (work, ms) => wait(work, ms > longest ? 1 : ms);  // as browsers and Node have it
      follow({ fetch: answering(open) });
      await settled();
      say({ event: "agent.heartbeat", sequence: "0.0", previous: null, data: { every_seconds: 1e8 } });
      await settled();
      const said = { asked, connected: views.at(-1).connected };
    """)
    assert said == {"asked": ["3"], "connected": True}


@pytest.mark.parametrize("transport", ["sse", "websocket"])
def test_a_page_that_closes_when_it_is_told_opens_no_line_any_more(transport: str) -> None:
    """As one does that follows a run until it is over, and is told so by what is fetched first."""
    said = played(f"""
      class WebSocket {{ constructor(address) {{ asked.push(after(address)); }} close() {{}} }}
      const options = {{ fetch: answering(open), transport: "{transport}", WebSocket }};
      const session = follow(options, (_, view) => {{ if (view.status === "completed") session.close(); }});
      await settled();
      const said = {{ asked, told: views.length }};
    """)
    assert said == {"asked": [], "told": 1}


def test_an_error_of_the_page_is_told_and_ends_nothing() -> None:
    said = played("""
      let seen = 0;
      follow({ fetch: answering(open) }, () => { seen += 1; throw new Error(`cannot show ${seen}`); });
      await settled();
      say(started("4.1", null));
      say(started("5.1", "4.1"));
      await settled();
      const said = { asked, waits, told: told.length === seen && told[0], last: views.at(-1).lastId };
    """)
    assert said == {"asked": ["3"], "waits": [], "told": "Error: cannot show 1", "last": "5.1"}


@pytest.mark.parametrize("which", ["getItem", "setItem", "sessionStorage"])
def test_a_storage_that_may_not_be_used_keeps_nothing_and_ends_nothing(which: str) -> None:
    said = played(f"""
      const refuse = () => {{ throw new Error("SecurityError"); }};
      if ("{which}" in storage) storage["{which}"] = refuse;
      else Object.defineProperty(globalThis, "sessionStorage", {{ get: refuse }});
      follow({{ fetch: answering(open), ...("{which}" in storage ? {{}} : {{ storage: undefined }}) }});
      await settled();
      say(started("4.1", null));
      say(started("5.1", "4.1"));
      await settled();
      const said = {{ asked, waits, last: views.at(-1).lastId }};
    """)
    assert said == {"asked": ["3"], "waits": [], "last": "5.1"}


def test_a_long_message_is_looked_through_once_however_it_is_cut() -> None:
    said = played("""
      follow({ fetch: answering(open) });
      await settled();
      const split = String.prototype.split;
      let looked = 0;
      String.prototype.split = function (...given) { looked += this.length; return split.apply(this, given); };
      const body = JSON.stringify({ ...started("4.1", null), more: "é".repeat(200_000) });
      const bytes = new TextEncoder().encode(`data: ${body}\\r\\n\\r\\n`);
      for (let at = 0; at < bytes.length; at += 1001) lines.at(-1).enqueue(bytes.slice(at, at + 1001));
      await settled();
      const said = { last: views.at(-1).lastId, once: looked < 2 * bytes.length };
    """)
    assert said == {"last": "4.1", "once": True}


def test_what_a_store_has_lost_is_shown_no_more_when_everything_is_sent_again() -> None:
    said = played("""
      let texts = [];
      const show = (messages) => { texts = messages.map((each) => each.content); };
      const says = (content) => [{ id: `s:${content}`, role: "assistant", content, timestamp: "" }];
      Object.assign(stored, { version: 37, messages: says("lost") });
      follow({ fetch: answering(open) }, show);
      await settled();
      const is = (status, sequence, previous) => ({ event: "agent.status", sequence, previous, data: { status } });
      say(is("completed", "37.1", null));
      await settled();
      const seen = [[views.at(-1).status, ...texts]];
      lines.at(-1).close();
      Object.assign(stored, { version: 19, status: "paused", messages: says("kept") });
      await settled();
      for (const body of [is("in_progress", "2.1", null), is("paused", "19.1", "2.1")]) say(body);
      await settled();
      seen.push([views.at(-1).status, ...texts]);
      const said = { seen, last: kept.get(KEY), asked: asked.at(-1) };
    """)
    assert said == {"seen": [["completed", "lost"], ["paused", "kept"]], "last": "19.1", "asked": "37.1"}


@pytest.mark.parametrize("status", ["paused", "waiting"])
@pytest.mark.parametrize("is_whole", [False, True], ids=["cut off", "never stored"])
def test_text_that_was_cut_off_is_gone_when_the_run_pauses_and_comes_anew_when_it_goes_on(
    status: str, *, is_whole: bool
) -> None:
    said = played(f"""
      let texts = [];
      follow({{ fetch: answering(open) }}, (messages) => {{ texts = messages.map((each) => each.content); }});
      await settled();
      const is = (status, sequence, previous) => ({{ event: "agent.status", sequence, previous, data: {{ status }} }});
      const wrote = (content, attempt, is_complete = false) => {{
        const data = {{ message_id: "s:1:1", content, is_complete, step_number: 1, attempt }};
        return {{ event: "agent.stream.chunk", sequence: "4.1", previous: "4.1", data }};
      }};
      const isWhole = {json.dumps(is_whole)}, cut = is("{status}", "6.1", "4.1");
      const before = [is("in_progress", "4.1", null), wrote("It ", 1), wrote("is", 1, isWhole)];
      const seen = [];
      for (const body of [...before, cut, is("in_progress", "7.1", "6.1"), wrote("It is", 2)]) {{
        if (body === cut) Object.assign(stored, {{ status: "{status}", version: 6 }});
        say(body);
        await settled();
        seen.push([views.at(-1).status, ...texts]);
      }}
      const said = {{ seen }};
    """)
    going = "in_progress"
    assert said["seen"] == [[going], [going, "It "], [going, "It is"], [status], [going], [going, "It is"]]


WRITTEN = {"message_id": "s:1:1", "content": "in it.", "is_complete": True, "step_number": 1, "attempt": 1}
CHUNK = {"event": "agent.stream.chunk", "sequence": "4.1", "previous": "4.1", "data": WRITTEN}
LOST: dict[str, Any] = {"event": "agent.stream.lost", "sequence": "4.1", "previous": "4.1", "data": {}}


@pytest.mark.parametrize(
    ("has_text", "seen", "fetched"),
    [
        (True, [], 1),  # written between the moment the line opened and the one from which pieces came
        (True, [CHUNK], 0),
        (True, [{**CHUNK, "data": {**WRITTEN, "is_complete": False}}], 1),
        (True, [{**CHUNK, "data": {**WRITTEN, "is_complete": False}}, LOST, CHUNK], 1),
        (False, [], 0),
    ],
    ids=["nothing", "all", "no end", "a gap", "no text"],
)
def test_the_text_of_a_step_with_calls_that_was_not_seen_whole_is_fetched(
    has_text: bool, seen: list[dict[str, Any]], fetched: int
) -> None:
    data = {"step_number": 1, "has_tool_calls": True, "has_text": has_text}
    ended = {"event": "agent.step.completed", "sequence": "9.1", "previous": "4.1", "data": data}
    said = played(f"""
      stored.status = "in_progress";
      let fetches = 0;
      const answer = answering(open);
      const fetch = (address) => {{ fetches += !String(address).includes("/events"); return answer(address); }};
      follow({{ fetch }});
      await settled();
      say(started("4.1", null));
      for (const body of {json.dumps(seen)}) say(body);
      await settled();
      const before = fetches;
      stored.version = 9;
      say({json.dumps(ended)});
      await settled();
      const said = {{ fetched: fetches - before }};
    """)
    assert said == {"fetched": fetched}


@pytest.mark.parametrize("is_whole", [False, True], ids=["cut off", "refused when it was whole"])
@pytest.mark.parametrize("is_stored", [False, True], ids=["not fetched", "fetched before"])
def test_the_text_of_a_try_that_failed_is_not_shown_beside_that_of_the_next(is_whole: bool, is_stored: bool) -> None:
    said = played(f"""
      stored.status = "in_progress";
      let texts = [];
      follow({{ fetch: answering(open) }}, (messages) => {{ texts = messages.map((each) => each.content); }});
      await settled();
      const wrote = (content, step, is_complete) => {{
        const data = {{ message_id: `s:1:${{step}}`, content, is_complete, step_number: step, attempt: 1 }};
        return {{ event: "agent.stream.chunk", sequence: "4.1", previous: "4.1", data }};
      }};
      const ended = {{ step_number: 1, has_tool_calls: false, has_text: false, errors: 1 }};
      const [seen, isStored] = [[], {json.dumps(is_stored)}];
      const before = [started("4.1", null), wrote("It is ha", 1, {json.dumps(is_whole)})];
      const message = {{ event: "agent.message", sequence: "5.1", previous: "4.1", data: {{}} }};
      const end = {{ event: "agent.step.completed", sequence: "9.2", previous: isStored ? "5.1" : "4.1", data: ended }};
      for (const body of [...before, ...(isStored ? [message] : []), end, wrote("It is here.", 2, false)]) {{
        if (body === message) stored.version = 9; // what is fetched is further than the messages are
        say(body);
        await settled();
        seen.push(texts);
      }}
      const said = {{ seen: seen.slice(-2) }};
    """)
    assert said == {"seen": [[], ["It is here."]]}
