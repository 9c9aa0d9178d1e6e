// The reference client of an event stream: it follows one session and says which messages to render.
//
//     import { SteptrailSession } from "./steptrail.js";
//     const session = new SteptrailSession("/agent/sessions/chat-1", (messages, view) => { ... });
//     session.close();
//
// What is stored is the truth. Text that is being written and calls that run are shown as `ephemeral` messages, until
// the stored conversation holds what became of them. It is fetched at the beginning, whenever something was said or the
// status of the run changes, when a message was missed, and when the line was down. A line on which nothing comes, no
// heartbeat either, is dead and is opened anew.

/**
 * @typedef {import("../../docs/ui/steptrail-ui").UiConversation} UiConversation
 * @typedef {import("../../docs/ui/steptrail-ui").UiMessage} UiMessage
 * @typedef {UiMessage & { ephemeral?: true }} ShownMessage
 *
 * @typedef {object} View
 * @property {UiConversation | null} conversation the newest one that was fetched: its status, approvals and errors
 * @property {UiConversation["status"] | null} status the newest that is known, of a message or of the conversation
 * @property {boolean} connected
 * @property {string | null} lastId the id of the last message that was seen
 * @property {string | null} refused why the server does not talk to us, while it does not; we ask again, ever more slowly
 * @property {boolean} missing whether there is no such session yet
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
 */

const SLOWEST_MS = 30_000;

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
  let rest = "";
  /** @type {string[]} */
  let data = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines.map((each) => each.replace(/\r$/, ""))) {
      if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      if (line !== "" || !data.length) continue;
      yield data.join("\n");
      data = [];
    }
  }
}

/** Follows one session until it is closed. */
export class SteptrailSession {
  /** @type {{ version: number, messages: readonly UiMessage[] }} */
  #shown = { version: -1, messages: [] };
  /** @type {UiConversation | null} */
  #conversation = null;
  /** @type {Map<string, Piece>} */
  #pieces = new Map();
  /** @type {string | null} */
  #lastId;
  /** @type {UiConversation["status"] | null} */
  #status = null;
  #statusAt = 0;
  /** @type {string | null} */
  #refused = null;
  #missing = false;
  #refusals = 0;
  #notes = 0;
  #connected = false;
  #closed = false;
  #fetching = false;
  #again = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #silence;
  /** @type {{ close(): void } | null} */
  #line = null;

  /**
   * @param {string} url the address of the session, such as `/agent/sessions/chat-1`
   * @param {(messages: ShownMessage[], view: View) => void} onChange told whenever there is something new to show
   * @param {Options} [options]
   */
  constructor(url, onChange, options = {}) {
    this.url = url.replace(/\/$/, "");
    this.onChange = onChange;
    this.transport = options.transport ?? "sse";
    this.storage = options.storage === undefined ? globalThis.sessionStorage ?? null : options.storage;
    this.fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.request = options.request ?? {};
    this.WebSocket = options.WebSocket ?? globalThis.WebSocket;
    this.retryMs = options.retryMs ?? 1000;
    this.silenceMs = options.silenceMs ?? 45_000;
    this.#lastId = this.storage?.getItem(this.#key) ?? null;
    void this.refresh();
  }

  /** Says no more. */
  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#hangUp();
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
    this.#show();
  }

  /** Fetches the stored conversation, and follows it; asked while it is being fetched, it is fetched once more. */
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
    } while (this.#again && !this.#closed);
    this.#fetching = false;
    if (!isAll) this.#later();
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
    try {
      const answer = await this.#ask(`${this.url}/conversation`, AbortSignal.timeout(this.silenceMs));
      if (this.#isRefused(answer)) this.#hangUp();
      if (!answer.ok) return false;
      const stored = /** @type {UiConversation} */ (await answer.json());
      if (this.#closed) return true;
      const isAll = this.#take(stored);
      if (this.#line === null) this.#connect();
      return isAll;
    } catch {
      return false; // the line is down, and the next try is to come
    }
  }

  /** Notes that the server says no, or that there is nothing. @param {Response} answer */
  #isRefused(answer) {
    const isNo = answer.status === 401 || answer.status === 403;
    this.#missing = answer.status === 404;
    if (isNo || this.#missing) this.#refusals += 1;
    if (!isNo && !this.#missing) return false;
    this.#refused = isNo ? answer.statusText || String(answer.status) : null;
    this.#show();
    return true;
  }

  /** @param {UiConversation} stored */
  #take(stored) {
    const seen = this.#lastId === null ? 0 : placeOf(this.#lastId)[0];
    this.#conversation = stored;
    this.#shown = reconcile(this.#shown, stored);
    this.#stands(stored.status, stored.version);
    const known = new Set(stored.messages.map((message) => message.id));
    for (const [key, piece] of this.#pieces) {
      const isKnown = piece.message.role === "assistant" && known.has(piece.message.id);
      if (piece.until <= stored.version || isKnown) this.#pieces.delete(key);
    }
    this.#show();
    return stored.version >= seen;
  }

  /** @param {UiConversation["status"]} status @param {number} version */
  #stands(status, version) {
    if (version < this.#statusAt) return;
    this.#status = status;
    this.#statusAt = version;
  }

  #connect() {
    const after = this.#lastId ?? (this.#conversation === null ? "" : String(this.#conversation.version));
    const address = new URL(`${this.url}/events?after=${encodeURIComponent(after)}`, globalThis.location?.href);
    if (this.transport === "websocket") {
      address.protocol = address.protocol.replace("http", "ws");
      const socket = new this.WebSocket(address);
      this.#line = socket;
      socket.onopen = () => this.#opened(socket);
      socket.onmessage = (event) => this.#heard(socket, String(event.data));
      socket.onclose = () => this.#lost(socket);
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
    this.#connected = true;
    this.#refused = null;
    this.#missing = false;
    this.#refusals = 0;
    // What is being written is sent from its beginning.
    for (const [key, piece] of this.#pieces) {
      if (piece.message.role === "assistant" && !piece.whole) this.#pieces.delete(key);
    }
    void this.refresh();
  }

  /** Waits for the next sign of life. @param {{ close(): void } | null} line */
  #alive(line) {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => line && this.#lost(line), this.silenceMs);
  }

  /** @param {{ close(): void }} line */
  #lost(line) {
    if (line !== this.#line) return;
    this.#hangUp();
    this.#show();
    this.#later();
  }

  /** Fetches again in a while: the longer, the more often the server has said no. */
  #later() {
    if (this.#closed) return;
    clearTimeout(this.#timer);
    const wait = Math.min(this.retryMs * 2 ** Math.min(this.#refusals, 10), Math.max(SLOWEST_MS, this.retryMs));
    this.#timer = setTimeout(() => void this.refresh(), wait * (0.5 + Math.random() / 2));
  }

  #hangUp() {
    const line = this.#line;
    this.#line = null;
    this.#connected = false;
    clearTimeout(this.#silence);
    line?.close();
  }

  /** @param {{ close(): void }} line @param {string} text */
  #heard(line, text) {
    if (line !== this.#line) return;
    const body = JSON.parse(text);
    const type = body.event ?? body.type;
    const data = body.data ?? body.payload;
    // Two heartbeats may be late before the line counts as dead.
    if (type === "agent.heartbeat") this.silenceMs = 3000 * data.every_seconds + 2000;
    this.#alive(line);
    if (type === "agent.heartbeat") return;
    if (type === "agent.stream.chunk" || type === "agent.stream.lost") {
      // It comes behind a stored message, which may be one that the conversation spared us.
      if (this.#lastId === null && body.previous !== null) this.#remember(body.previous);
      this.#ephemeral(type, data);
      return;
    }
    const id = /** @type {string} */ (body.sequence);
    if (this.#lastId !== null && body.previous !== null && isBehind(id, this.#lastId)) return;
    // The first message after a conversation has no place of its own to compare with.
    const isGap = this.#lastId !== null && body.previous !== this.#lastId;
    this.#remember(id);
    this.#durable(type, data, placeOf(id)[0]);
    if (isGap) void this.refresh();
    this.#show();
  }

  /** @param {string} id */
  #remember(id) {
    this.#lastId = id;
    this.storage?.setItem(this.#key, id);
  }

  /** @param {string} type @param {any} data */
  #ephemeral(type, data) {
    if (type === "agent.stream.lost") {
      for (const piece of this.#pieces.values()) {
        if (piece.message.role === "assistant" && !piece.whole) piece.message = { ...piece.message, content: "… " };
      }
    } else if (!this.#shown.messages.some((message) => message.id === data.message_id)) {
      const before = this.#pieces.get(data.message_id);
      const text = before?.attempt === data.attempt ? before?.message.content ?? "" : "";
      if (!before && !data.content) return;
      this.#piece(data.message_id, "assistant", text + data.content, {}, Infinity, data);
    }
    this.#show();
  }

  /** @param {string} type @param {any} data @param {number} version */
  #durable(type, data, version) {
    const isKnown = version <= (this.#conversation?.version ?? -1);
    switch (type) {
      case "agent.status":
        this.#stands(data.status, version);
        void this.refresh();
        break;
      case "agent.message":
        if (!isKnown) void this.refresh();
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
        if (!isKnown && this.#endStep(data.step_number, version) && !data.has_tool_calls) void this.refresh();
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
        isWhole ||= piece.whole;
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
   * @param {{ step_number: number, attempt: number, is_complete: boolean }} data
   */
  #piece(id, role, content, metadata, until, data) {
    const timestamp = this.#pieces.get(id)?.message.timestamp ?? new Date().toISOString();
    const message = { id, role, content, timestamp, metadata, ephemeral: /** @type {const} */ (true) };
    const { step_number: step, attempt, is_complete: whole } = data;
    this.#pieces.set(id, { message, until, step, attempt, whole });
  }

  #show() {
    if (this.#closed) return;
    const known = new Set(this.#shown.messages.map((message) => message.id));
    const stored = this.#shown.messages.map((message) => this.#pieces.get(message.id)?.message ?? message);
    const pieces = [...this.#pieces.values()].map((piece) => piece.message).filter((message) => !known.has(message.id));
    this.onChange([...stored, ...pieces], {
      conversation: this.#conversation,
      status: this.#status,
      connected: this.#connected,
      lastId: this.#lastId,
      refused: this.#refused,
      missing: this.#missing,
    });
  }
}
