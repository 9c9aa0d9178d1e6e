// The reference client of an event stream: it follows one session, or one run of a workflow, and says what to render.
//
//     import { SteptrailSession } from "/agent/steptrail.js";
//     const session = new SteptrailSession("/agent/sessions/chat-1", (messages, view) => { ... });
//     session.close();
//     const run = new SteptrailFlow("/agent/flows/order-7", (run, view) => { ... });
//
// What is stored is the truth. Text that is being written and calls that run are shown as `ephemeral` messages, until
// the stored conversation holds what became of them. It, or the stored run, is fetched at the beginning, whenever something was said or the
// status of the run changes, when a message was missed, and when the line was down. A line on which nothing comes, no
// heartbeat either, is dead and is opened anew.

/**
 * @typedef {import("../../docs/ui/steptrail-ui").UiConversation} UiConversation
 * @typedef {import("../../docs/ui/steptrail-ui").UiMessage} UiMessage
 * @typedef {UiMessage & { ephemeral?: true }} ShownMessage
 *
 * @typedef {object} Standing
 * @property {Status | null} status the newest that is known, of a message or of what is stored
 * @property {boolean} connected
 * @property {string | null} lastId the id of the last message that was seen
 * @property {string | null} refused why the server does not talk to us, while it does not; we ask again, ever more slowly
 * @property {boolean} missing whether there is no such session or run yet
 *
 * @typedef {Standing & { conversation: UiConversation | null }} View
 * With the newest conversation that was fetched: its status, approvals and errors.
 *
 * @typedef {object} Options
 * @property {"sse" | "websocket"} [transport] how messages come; a WebSocket carries cookies and no headers
 * @property {Pick<Storage, "getItem" | "setItem"> | null} [storage] keeps the last id over reloads; null keeps nothing
 * @property {typeof fetch} [fetch]
 * @property {RequestInit | (() => RequestInit)} [request] goes with each fetch, the stream of messages too: credentials, headers
 * @property {typeof WebSocket} [WebSocket]
 * @property {number} [retryMs] how long to wait before connecting or fetching again
 * @property {number} [silenceMs] how long a line may be silent until the server has said when its heartbeats come
 *
 * @typedef {object} Piece something that is shown and not stored, as far as we know
 * @property {ShownMessage} message
 * @property {number} until from this version on the stored conversation knows better; Infinity while it goes on
 * @property {number} step
 * @property {number} attempt
 * @property {boolean} whole whether the text has come to its end
 * @property {boolean} cut whether some of the text was lost on its way
 */

/** @typedef {import("../../docs/ui/steptrail-ui").ExecutionStatus} Status */

const SLOWEST_MS = 30_000;
/** The most that a timer of a browser can wait: 24 days. */
const LONGEST_MS = 2 ** 31 - 1;
/** The messages that are not stored. */
const EPHEMERAL = new Set(["agent.stream.chunk", "agent.stream.lost", "flow.stream.chunk", "flow.stream.lost", "flow.node.progress"]);

/** The form of the id of a message. */
const ID = /^[0-9]{1,18}\.[0-9]{1,9}$/;

/** @param {string} id @returns {[number, number]} */
const placeOf = (id) => /** @type {[number, number]} */ (id.split(".").map(Number));

/** @param {string} a @param {string} b */
const isBehind = (a, b) => {
  const [version, place] = placeOf(a);
  const [otherVersion, otherPlace] = placeOf(b);
  return version < otherVersion || (version === otherVersion && place <= otherPlace);
};

/** @param {UiMessage} message */
const callOf = (message) =>
  message.role === "tool" ? message.metadata?.tool_call_id ?? message.metadata?.tool_name ?? null : null;

/**
 * What to show of a session, given what is shown and what is stored of it: the stored messages, and the errors that
 * only the front end knows, each behind the stored message that it followed.
 *
 * @template {{ version: number, messages: readonly UiMessage[] }} Conversation
 * @param {Conversation} shown
 * @param {Conversation} stored
 * @returns {Conversation}
 */
export function reconcile(shown, stored) {
  if (stored.version < shown.version) return shown;
  const known = new Set(stored.messages.map((message) => message.id));
  const ofCalls = new Map(stored.messages.filter(callOf).map((message) => [callOf(message), message.id]));
  /** @type {Map<string | null, UiMessage[]>} */
  const kept = new Map();
  /** @type {string | null} */
  let after = null;
  for (const message of shown.messages) {
    if (known.has(message.id)) {
      after = message.id;
    } else if (message.metadata?.status_type === "error") {
      kept.set(after, [...(kept.get(after) ?? []), message]);
    } else {
      after = ofCalls.get(callOf(message)) ?? after;
    }
  }
  const woven = stored.messages.flatMap((message) => [message, ...(kept.get(message.id) ?? [])]);
  return { ...stored, messages: [...(kept.get(null) ?? []), ...woven] };
}

/** Yields the data of Server-Sent Events. @param {ReadableStream<Uint8Array>} body @returns {AsyncGenerator<string>} */
async function* dataOf(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  /** @type {string[]} the pieces of a line that has not ended */
  let pieces = [];
  /** @type {string[]} */
  let data = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = decoder.decode(value, { stream: true }).split("\n");
    const rest = lines.pop() ?? "";
    if (lines.length) {
      lines[0] = pieces.join("") + lines[0];
      pieces = [];
    }
    pieces.push(rest);
    for (const line of lines.map((each) => each.replace(/\r$/, ""))) {
      if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      if (line !== "" || !data.length) continue;
      yield data.join("\n");
      data = [];
    }
  }
}

/**
 * Reads JSON, however long it takes to come: of a long conversation on a slow line it is more than a silence.
 *
 * @param {Response} answer
 * @param {() => void} alive called for each piece
 * @returns {Promise<any>}
 */
function jsonOf(answer, alive) {
  if (!answer.body) return answer.json();
  /** @type {Transformer<Uint8Array, Uint8Array>} */
  const told = {
    transform(piece, out) {
      alive();
      out.enqueue(piece);
    },
  };
  return new Response(answer.body.pipeThrough(new TransformStream(told))).json();
}

/** Returns the storage of this page, if it has one that it may use. @returns {Storage | null} */
function storageHere() {
  try {
    return globalThis.sessionStorage ?? null;
  } catch {
    return null; // cookies are blocked, and with them this
  }
}

/** Follows one stream until it is closed. A class below it says what is shown of the stream. */
class Followed {
  /** @type {any} what was fetched last */
  _stored = null;
  /** @type {string | null} */
  _lastId;
  /** @type {Status | null} */
  _status = null;
  _statusAt = 0;
  /** @type {string | null} */
  _refused = null;
  _missing = false;
  _connected = false;
  _closed = false;
  #refusals = 0;
  /** Whether anything came on the line that is open. */
  #isHeard = false;
  /** How long the last answer asks us to stay away. */
  #awayMs = 0;
  #fetching = false;
  #again = false;
  /** @type {AbortController | null} */
  #asking = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #silence;
  /** @type {{ close(): void } | null} */
  #line = null;

  /**
   * @param {string} url the address of the stream
   * @param {"agent" | "flow"} kind how the types of its messages begin
   * @param {"conversation" | "run"} what the name of what is stored
   * @param {Options} options
   */
  constructor(url, kind, what, options) {
    this.url = url.replace(/\/$/, "");
    this.kind = kind;
    this.what = what;
    this.transport = options.transport ?? "sse";
    this.storage = options.storage === undefined ? storageHere() : options.storage;
    this.fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.request = options.request ?? {};
    this.WebSocket = options.WebSocket ?? globalThis.WebSocket;
    this.retryMs = options.retryMs ?? 1000;
    this.silenceMs = options.silenceMs ?? 45_000;
    this._lastId = this.#recalled();
  }

  /** Takes what was fetched. @param {any} stored */
  _take(stored) {}

  /** Shows nothing of what was stored: it is there no more. */
  _gone() {}

  /** Begins anew with what is not stored: what will be written is sent from its beginning. */
  _begun() {}

  /** Takes a message that is not stored. @param {string} type @param {any} data */
  _ephemeral(type, data) {}

  /** Takes a message about a stored event. @param {string} type @param {any} data @param {number} version */
  _durable(type, data, version) {}

  /** Has the page show the stream. @param {Standing} view */
  _tell(view) {}

  /** Tells whoever shows the stream. An error of the page is the page's: it is told, and we go on. */
  _show() {
    if (this._closed) return;
    try {
      this._tell({
        status: this._status,
        connected: this._connected,
        lastId: this._lastId,
        refused: this._refused,
        missing: this._missing,
      });
    } catch (error) {
      (globalThis.reportError ?? console.error)(error);
    }
  }

  /** Says no more. */
  close() {
    this._closed = true;
    clearTimeout(this.#timer);
    this.#asking?.abort();
    this.#hangUp();
  }

  /** Fetches what is stored, and follows it; asked while it is being fetched, it is fetched once more. */
  async refresh() {
    if (this.#fetching) {
      this.#again = true;
      return;
    }
    this.#fetching = true;
    let isAll = false;
    do {
      this.#again = false;
      isAll = await this.#fetched();
    } while (this.#again && !this.#awayMs && !this._closed);
    this.#fetching = false;
    if (!isAll) this.#later();
  }

  /** Fetches what is stored, since it has changed. Where the server has asked us to stay away, that comes by itself. */
  _changed() {
    if (!this.#awayMs) void this.refresh();
  }

  get #key() {
    return `steptrail:${this.url}`;
  }

  /** @param {string} address @param {AbortSignal} signal @param {Record<string, string>} [headers] */
  #ask(address, signal, headers = {}) {
    const request = typeof this.request === "function" ? this.request() : this.request;
    const all = new Headers(request.headers);
    for (const [name, value] of Object.entries(headers)) all.set(name, value);
    return this.fetch(address, { cache: "no-store", ...request, headers: all, signal });
  }

  /** @returns {Promise<boolean>} whether that is all that there is to know for now */
  async #fetched() {
    this.#awayMs = 0;
    const isDown = this.#line === null;
    const asking = (this.#asking = new AbortController());
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let silence;
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(() => asking.abort(), this.silenceMs);
    };
    try {
      alive();
      const answer = await this.#ask(`${this.url}/${this.what}`, asking.signal);
      // Who is asked too often by all has not shut us out: a line that is open stays.
      if (this.#isRefused(answer) && answer.status !== 429) this.#hangUp();
      if (!answer.ok) return false;
      if (this._connected) this.#welcomed();
      const stored = await jsonOf(answer, alive);
      if (this._closed) return true;
      const seen = this._lastId === null ? 0 : placeOf(this._lastId)[0];
      this._take(stored);
      this._stands(stored.status, stored.version);
      this._show();
      // A line that was lost meanwhile is opened anew after a while, or who cuts each of them would be asked without a rest.
      if (isDown && !this._closed) this.#connect();
      return stored.version >= seen;
    } catch {
      return false; // the line is down, and the next try is to come
    } finally {
      clearTimeout(silence);
    }
  }

  /** Notes that the server says no, that there is nothing, or that it cannot answer, which is no no. @param {Response} answer */
  #isRefused(answer) {
    this._missing = answer.status === 404;
    if (this._missing && this._stored !== null) this.#beginAnew();
    if (answer.status < 400) return false;
    this.#awayMs = 1000 * Math.max(0, Number(answer.headers.get("retry-after")) || 0);
    const isNo = answer.status < 500;
    if (this._missing) this.#turnedAway(null);
    else this.#turnedAway(isNo ? answer.statusText || String(answer.status) : this._refused);
    return isNo;
  }

  #beginAnew() {
    this._stored = this._status = null;
    this._statusAt = 0;
    this.#remember(null);
    this._gone();
  }

  #welcomed() {
    this._refused = null;
    this._missing = false;
    this.#refusals = 0;
  }

  /** @param {string | null} why */
  #turnedAway(why) {
    this.#refusals += 1;
    this._refused = why;
    this._show();
  }

  /** @param {Status} status @param {number} version */
  _stands(status, version) {
    if (version < this._statusAt) return;
    this._status = status;
    this._statusAt = version;
  }

  #connect() {
    // What is stored holds all that came before it: who was away for hours is not sent each message that it missed.
    const isAhead = this._lastId !== null && placeOf(this._lastId)[0] > this._stored.version;
    const after = String(isAhead ? this._lastId : this._stored.version);
    this.#isHeard = false;
    const address = new URL(`${this.url}/events?after=${after}`, globalThis.location?.href);
    if (this.transport === "websocket") {
      address.protocol = address.protocol.replace("http", "ws");
      const socket = new this.WebSocket(address);
      this.#line = socket;
      socket.onopen = () => this.#opened(socket);
      socket.onmessage = (event) => this.#heard(socket, String(event.data));
      socket.onclose = () => {
        // A script is not told why a WebSocket is refused; the server answers, since what is stored was fetched.
        if (socket === this.#line && !this._connected) {
          this.#remember(null);
          this.#turnedAway("the WebSocket was not opened");
        }
        this.#lost(socket);
      };
    } else {
      void this.#listen(String(address));
    }
    this.#alive(this.#line);
  }

  /** Reads Server-Sent Events. An `EventSource` could send no headers, and would not say why it is refused. @param {string} address */
  async #listen(address) {
    const asking = new AbortController();
    const line = { close: () => asking.abort() };
    this.#line = line;
    try {
      const answer = await this.#ask(address, asking.signal, { accept: "text/event-stream" });
      // An id that the server cannot use is one that was kept wrongly: next time we go on behind what is stored.
      if (answer.status === 400 && line === this.#line) this.#remember(null);
      this.#isRefused(answer);
      if (answer.ok && answer.body) {
        this.#opened(line);
        for await (const data of dataOf(answer.body)) this.#heard(line, data);
      }
    } catch {
      // the line is down, and the next one is to come
    }
    this.#lost(line);
  }

  /** @param {{ close(): void }} line */
  #opened(line) {
    if (line !== this.#line) return;
    this._connected = true;
    this._begun();
    this._changed();
  }

  /** Waits for the next sign of life. @param {{ close(): void } | null} line */
  #alive(line) {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => line && this.#lost(line), this.silenceMs);
  }

  /** @param {{ close(): void }} line */
  #lost(line) {
    if (line !== this.#line) return;
    if (this._connected && !this.#isHeard) this.#refusals += 1; // somebody before the server has cut it
    this.#again = false;
    this.#hangUp();
    this._show();
    this.#later();
  }

  /** Fetches again in a while: the longer, the more often the server has not answered what was asked. */
  #later() {
    if (this._closed) return;
    clearTimeout(this.#timer);
    const wait = Math.min(this.retryMs * 2 ** Math.min(this.#refusals, 10), Math.max(SLOWEST_MS, this.retryMs));
    this.#timer = setTimeout(() => void this.refresh(), Math.min(this.#awayMs + wait * (0.5 + Math.random() / 2), LONGEST_MS));
  }

  #hangUp() {
    const line = this.#line;
    this.#line = null;
    this._connected = false;
    clearTimeout(this.#silence);
    line?.close();
  }

  /** @param {{ close(): void }} line @param {string} text */
  #heard(line, text) {
    if (line !== this.#line) return;
    if (!this.#isHeard) this.#welcomed();
    this.#isHeard = true;
    const body = JSON.parse(text);
    const type = body.event ?? body.type;
    const data = body.data ?? body.payload;
    // Two heartbeats may be late before the line counts as dead. A timer for more than its most is over at once.
    if (type === `${this.kind}.heartbeat`) this.silenceMs = Math.min(3000 * data.every_seconds + 2000, LONGEST_MS);
    this.#alive(line);
    if (type === `${this.kind}.heartbeat`) return;
    if (EPHEMERAL.has(type)) {
      // It comes behind a stored message, which may be one that what is stored spared us.
      if (this._lastId === null && body.previous !== null) this.#remember(body.previous);
      this._ephemeral(type, data);
      return;
    }
    const id = /** @type {string} */ (body.sequence);
    if (this._lastId !== null && body.previous !== null && isBehind(id, this._lastId)) return;
    // The first message after what is stored has no place of its own to compare with.
    const isGap = this._lastId !== null && body.previous !== this._lastId;
    // Who is sent the first message again has seen what the store has no more, such as one that lost its last commits.
    if (isGap && body.previous === null) this.#beginAnew();
    this.#remember(id);
    this._durable(type, data, placeOf(id)[0]);
    if (isGap) this._changed();
    this._show();
  }

  /** @param {string | null} id */
  #remember(id) {
    this._lastId = id;
    try {
      this.storage?.setItem(this.#key, id ?? "");
    } catch {
      // it is full, or may not be used: after a reload all that is stored is fetched
    }
  }

  /** @returns {string | null} the id that was kept over a reload, if it is one */
  #recalled() {
    try {
      const id = this.storage?.getItem(this.#key) ?? "";
      return ID.test(id) ? id : null;
    } catch {
      return null;
    }
  }
}

/** Follows one session until it is closed. */
export class SteptrailSession extends Followed {
  /** @type {{ version: number, messages: readonly UiMessage[] }} */
  #shown = { version: -1, messages: [] };
  /** @type {Map<string, Piece>} */
  #pieces = new Map();
  #notes = 0;

  /**
   * @param {string} url the address of the session, such as `/agent/sessions/chat-1`
   * @param {(messages: ShownMessage[], view: View) => void} onChange told whenever there is something new to show
   * @param {Options} [options]
   */
  constructor(url, onChange, options = {}) {
    super(url, "agent", "conversation", options);
    this.onChange = onChange;
    void this.refresh();
  }

  /** Shows an error that only this front end knows, such as a message that could not be sent. @param {string} text */
  note(text) {
    this.#notes += 1;
    const message = {
      id: `local:error:${this.#notes}`,
      role: /** @type {const} */ ("status"),
      content: text,
      timestamp: new Date().toISOString(),
      metadata: { status_type: /** @type {const} */ ("error") },
    };
    this.#shown = { ...this.#shown, messages: [...this.#shown.messages, message] };
    this._show();
  }

  /** @param {UiConversation} stored */
  _take(stored) {
    this._stored = stored;
    this.#shown = reconcile(this.#shown, stored);
    const known = new Set(stored.messages.map((message) => message.id));
    for (const [key, piece] of this.#pieces) {
      const isKnown = piece.message.role === "assistant" && known.has(piece.message.id);
      if (piece.until <= stored.version || isKnown) this.#pieces.delete(key);
    }
  }

  _gone() {
    this.#shown = { version: -1, messages: [] };
    this.#pieces.clear();
  }

  _begun() {
    this.#drop((piece) => !piece.whole);
  }

  /** Shows some of the text that is not stored no more. @param {(piece: Piece) => boolean} which */
  #drop(which) {
    for (const [key, piece] of this.#pieces) {
      if (piece.message.role === "assistant" && which(piece)) this.#pieces.delete(key);
    }
  }

  /** @param {string} type @param {any} data */
  _ephemeral(type, data) {
    if (type === "agent.stream.lost") {
      for (const piece of this.#pieces.values()) {
        if (piece.message.role !== "assistant" || piece.whole) continue;
        piece.message = { ...piece.message, content: "… " };
        piece.cut = true;
      }
    } else if (!this.#shown.messages.some((message) => message.id === data.message_id)) {
      const before = this.#pieces.get(data.message_id);
      const same = before?.attempt === data.attempt ? before : undefined;
      if (!before && !data.content) return;
      this.#piece(data.message_id, "assistant", (same?.message.content ?? "") + data.content, {}, Infinity, data, same?.cut);
    }
    this._show();
  }

  /** @param {string} type @param {any} data @param {number} version */
  _durable(type, data, version) {
    const isKnown = version <= (this._stored?.version ?? -1);
    switch (type) {
      case "agent.status":
        this._stands(data.status, version);
        if (data.status !== "in_progress") {
          this._begun(); // what was being written was cut off
          for (const piece of this.#pieces.values()) piece.until = Math.min(piece.until, version); // and the rest is stored, or lost
        }
        this._changed();
        break;
      case "agent.message":
        if (!isKnown) this._changed();
        break;
      case "agent.tool.started":
        if (!isKnown) this.#call(data, version, "running", "");
        break;
      case "agent.tool.completed":
        if (!isKnown) {
          const said = data.error ?? data.result_summary ?? "";
          this.#call(data, version, data.success ? "completed" : "failed", said);
        }
        break;
      case "agent.step.completed":
        if (!data.has_text) this.#drop((piece) => piece.step === data.step_number); // it broke off: nothing of it is stored
        else if (!isKnown && this.#endStep(data.step_number, version)) this._changed();
        break;
      default: // a type that this client does not know
    }
  }

  /** Ends the text of a step; says whether all of it was not seen. @param {number} step @param {number} version */
  #endStep(step, version) {
    let isWhole = false;
    for (const piece of this.#pieces.values()) {
      if (piece.message.role === "assistant" && piece.step === step) {
        piece.until = Math.min(piece.until, version);
        isWhole ||= piece.whole && !piece.cut;
      }
    }
    return !isWhole;
  }

  /** @param {any} data @param {number} version @param {"running" | "completed" | "failed"} status @param {string} said */
  #call(data, version, status, said) {
    const ended = status === "failed" ? { tool_error: said } : status === "completed" ? { tool_result_summary: said } : {};
    const metadata = { tool_call_id: data.tool_call_id, tool_name: data.tool_name, tool_status: status, ...ended };
    this.#piece(data.message_id, "tool", said, metadata, version, { step_number: 0, attempt: 1, is_complete: true });
  }

  /**
   * @param {string} id @param {"assistant" | "tool"} role @param {string} content
   * @param {import("../../docs/ui/steptrail-ui").UiMetadata} metadata @param {number} until
   * @param {{ step_number: number, attempt: number, is_complete: boolean }} data @param {boolean} [cut]
   */
  #piece(id, role, content, metadata, until, data, cut = false) {
    const timestamp = this.#pieces.get(id)?.message.timestamp ?? new Date().toISOString();
    const message = { id, role, content, timestamp, metadata, ephemeral: /** @type {const} */ (true) };
    const { step_number: step, attempt, is_complete: whole } = data;
    this.#pieces.set(id, { message, until, step, attempt, whole, cut });
  }

  /** @param {Standing} view */
  _tell(view) {
    const known = new Set(this.#shown.messages.map((message) => message.id));
    const stored = this.#shown.messages.map((message) => this.#pieces.get(message.id)?.message ?? message);
    const pieces = [...this.#pieces.values()].map((piece) => piece.message).filter((message) => !known.has(message.id));
    this.onChange([...stored, ...pieces], { conversation: this._stored, ...view });
  }
}

/**
 * @typedef {import("../../docs/ui/steptrail-ui").UiFlowRun} UiFlowRun
 *
 * @typedef {object} Writing text that a node is writing, or how far it has come; gone when its try has ended
 * @property {string} node
 * @property {number} visit
 * @property {number | null} item
 * @property {number} attempt
 * @property {string} text
 * @property {string | null} progress
 * @property {number | null} done
 * @property {number | null} total
 *
 * @typedef {Standing & { writing: Writing[] }} FlowView
 * With what is being written, by nodes in the order in which they began.
 */

/** Messages after which the stored run looks different. */
const CHANGES = new Set(["flow.status", "flow.question.asked", "flow.question.answered", "flow.node.failed", "flow.node.skipped", "flow.node.cancelled"]);

/** Follows one run of a workflow until it is closed. */
export class SteptrailFlow extends Followed {
  /** @type {UiFlowRun | null} */
  #run = null;
  /** @type {Map<string, Writing>} */
  #writing = new Map();

  /**
   * @param {string} url the address of the run, such as `/agent/flows/order-7`
   * @param {(run: UiFlowRun | null, view: FlowView) => void} onChange told whenever there is something new to show
   * @param {Options} [options]
   */
  constructor(url, onChange, options = {}) {
    super(url, "flow", "run", options);
    this.onChange = onChange;
    void this.refresh();
  }

  /** @param {UiFlowRun} stored */
  _take(stored) {
    if (this.#run === null || stored.version >= this.#run.version) this.#run = this._stored = stored;
    if (stored.stop_reason !== undefined) this.#writing.clear();
  }

  _gone() {
    this.#run = null;
    this.#writing.clear();
  }

  _begun() {
    this.#writing.clear();
  }

  /** @param {string} type @param {any} data */
  _ephemeral(type, data) {
    if (type === "flow.stream.lost") {
      for (const piece of this.#writing.values()) piece.text = "… ";
    } else {
      const key = placeKey(data);
      const before = this.#writing.get(key);
      const same = before?.attempt === data.attempt ? before : undefined;
      const { node, visit, item, attempt } = data;
      const known = { text: "", progress: null, done: null, total: null, ...same };
      const told =
        type === "flow.stream.chunk"
          ? { text: known.text + data.content }
          : { progress: data.message, done: data.done, total: data.total };
      this.#writing.set(key, { ...known, node, visit, item, attempt, ...told });
    }
    this._show();
  }

  /** @param {string} type @param {any} data @param {number} version */
  _durable(type, data, version) {
    const isKnown = version <= (this.#run?.version ?? -1);
    if (type === "flow.status") this._stands(data.status, version);
    if (type === "flow.attempt.completed") this.#writing.delete(placeKey(data));
    if (isKnown || this.#run === null) return;
    if (type === "flow.node.started") this.#mark(data.node, "open");
    else if (type === "flow.node.completed") this.#mark(data.node, "ran");
    else if (CHANGES.has(type)) this._changed();
  }

  /** @param {string} id @param {UiFlowRun["nodes"][number]["mark"]} mark */
  #mark(id, mark) {
    if (this.#run === null) return;
    const nodes = this.#run.nodes.map((node) => (node.id === id ? { ...node, mark } : node));
    this.#run = { ...this.#run, nodes };
  }

  /** @param {Standing} view */
  _tell(view) {
    this.onChange(this.#run, { writing: [...this.#writing.values()], ...view });
  }
}

/** @param {{ node: string, visit: number, item: number | null }} place */
function placeKey(place) {
  return `${place.node}:${place.visit}:${place.item ?? ""}`;
}
