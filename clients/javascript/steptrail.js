// The reference client of an event stream: it follows one session and says which messages to render.
//
//     import { SteptrailSession } from "./steptrail.js";
//     const session = new SteptrailSession("/agent/sessions/chat-1", (messages, view) => { ... });
//     session.close();
//
// What is stored is the truth. Text that is being written and calls that run are shown as `ephemeral` messages, until
// the stored conversation holds what became of them. It is fetched at the beginning, whenever the status of the run
// changes, when a message was missed, and when the line was down.

/**
 * @typedef {import("../../docs/ui/steptrail-ui").UiConversation} UiConversation
 * @typedef {import("../../docs/ui/steptrail-ui").UiMessage} UiMessage
 * @typedef {UiMessage & { ephemeral?: true }} ShownMessage
 *
 * @typedef {object} View
 * @property {UiConversation | null} conversation the newest one that was fetched: its status, approvals and errors
 * @property {string | null} status that of the newest message about it, such as processing; before one, the conversation's
 * @property {boolean} connected
 * @property {string | null} lastId the id of the last message that was seen
 * @property {string | null} refused why the server will not talk to us, when it will not
 *
 * @typedef {object} Options
 * @property {"sse" | "websocket"} [transport] how messages come
 * @property {Pick<Storage, "getItem" | "setItem"> | null} [storage] keeps the last id over reloads; null keeps nothing
 * @property {typeof fetch} [fetch]
 * @property {RequestInit} [request] goes with each fetch: credentials, headers
 * @property {typeof EventSource} [EventSource]
 * @property {typeof WebSocket} [WebSocket]
 * @property {number} [retryMs] how long to wait before connecting or fetching again
 *
 * @typedef {object} Piece something that is shown and not stored, as far as we know
 * @property {ShownMessage} message
 * @property {number} until from this version on the stored conversation knows better; Infinity while it goes on
 * @property {number} step
 * @property {number} attempt
 * @property {boolean} whole whether the text has come to its end
 */

const ENDS = new Set(["completed", "failed", "cancelled", "stopped"]);

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
  /** @type {string | null} */
  #status = null;
  /** @type {string | null} */
  #refused = null;
  #step = 0;
  #notes = 0;
  #connected = false;
  #closed = false;
  #fetching = false;
  #again = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {EventSource | WebSocket | null} */
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
    this.EventSource = options.EventSource ?? globalThis.EventSource;
    this.WebSocket = options.WebSocket ?? globalThis.WebSocket;
    this.retryMs = options.retryMs ?? 1000;
    this.#lastId = this.storage?.getItem(this.#key) ?? null;
    void this.#begin();
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

  /** Fetches the stored conversation; asked while it is being fetched, it is fetched once more. */
  async refresh() {
    if (this.#fetching) {
      this.#again = true;
      return;
    }
    this.#fetching = true;
    let later = false;
    do {
      this.#again = false;
      later = !(await this.#fetched());
    } while (this.#again && !this.#closed);
    this.#fetching = false;
    if (later && !this.#closed && this.#refused === null) this.#after(() => void this.refresh());
  }

  get #key() {
    return `steptrail:${this.url}`;
  }

  async #begin() {
    // What a reload has left to us is the id; without one the conversation says where we are.
    const fetched = this.refresh();
    if (this.#lastId === null) await fetched;
    this.#connect();
  }

  /** @returns {Promise<boolean>} whether that is all that there is to know for now */
  async #fetched() {
    /** @type {Response} */
    let answer;
    try {
      answer = await this.fetch(`${this.url}/conversation`, { cache: "no-store", ...this.request });
      if (answer.status === 401 || answer.status === 403) {
        this.#refused = answer.statusText || String(answer.status);
        this.#hangUp();
        this.#show();
        return true;
      }
      if (!answer.ok) return false;
      const stored = /** @type {UiConversation} */ (await answer.json());
      if (this.#closed) return true;
      return this.#take(stored);
    } catch {
      return false; // the line is down, and the next try is to come
    }
  }

  /** @param {UiConversation} stored */
  #take(stored) {
    const seen = this.#lastId === null ? 0 : placeOf(this.#lastId)[0];
    this.#conversation = stored;
    this.#shown = reconcile(this.#shown, stored);
    const known = new Set(stored.messages.map((message) => message.id));
    for (const [key, piece] of this.#pieces) {
      if (piece.until <= stored.version || known.has(piece.message.id)) this.#pieces.delete(key);
    }
    this.#show();
    // A run says how it ends a moment before it has ended.
    const isLate = ENDS.has(this.#status ?? "") && stored.status === "in_progress";
    return stored.version >= seen && !isLate;
  }

  #connect() {
    if (this.#closed || this.#refused !== null) return;
    this.#hangUp();
    const after = this.#lastId ?? (this.#conversation === null ? "" : String(this.#conversation.version));
    const address = new URL(`${this.url}/events?after=${encodeURIComponent(after)}`, globalThis.location?.href);
    if (this.transport === "websocket") {
      address.protocol = address.protocol.replace("http", "ws");
      const socket = new this.WebSocket(address);
      this.#line = socket;
      socket.onopen = () => this.#opened();
      socket.onmessage = (event) => this.#heard(String(event.data));
      socket.onclose = () => this.#lost(socket, true);
    } else {
      const source = new this.EventSource(address, { withCredentials: this.request.credentials === "include" });
      this.#line = source;
      source.onopen = () => this.#opened();
      source.onmessage = (event) => this.#heard(event.data);
      // A browser comes again by itself, unless it was answered with an error.
      source.onerror = () => this.#lost(source, source.readyState === this.EventSource.CLOSED);
    }
  }

  #opened() {
    this.#connected = true;
    // What is being written is sent from its beginning.
    for (const [key, piece] of this.#pieces) {
      if (piece.message.role === "assistant" && !piece.whole) this.#pieces.delete(key);
    }
    void this.refresh();
  }

  /** @param {EventSource | WebSocket} line @param {boolean} forGood */
  #lost(line, forGood) {
    if (line !== this.#line) return;
    this.#connected = false;
    this.#show();
    if (forGood) {
      this.#hangUp();
      this.#after(() => {
        void this.refresh();
        this.#connect();
      });
    }
  }

  /** @param {() => void} call */
  #after(call) {
    const wait = this.retryMs * (0.5 + Math.random() / 2);
    const timer = setTimeout(() => !this.#closed && call(), wait);
    this.#timer = timer;
  }

  #hangUp() {
    const line = this.#line;
    this.#line = null;
    this.#connected = false;
    line?.close();
  }

  /** @param {string} text */
  #heard(text) {
    const body = JSON.parse(text);
    const type = body.event ?? body.type;
    const data = body.data ?? body.payload;
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
        this.#status = data.status;
        void this.refresh();
        break;
      case "agent.step.started":
        this.#step = data.step_number;
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
    const key = `local:call:${this.#step}:${data.tool_call_id}`;
    const ended = status === "failed" ? { tool_error: said } : status === "completed" ? { tool_result_summary: said } : {};
    const metadata = { tool_call_id: data.tool_call_id, tool_name: data.tool_name, tool_status: status, ...ended };
    this.#piece(key, "tool", said, metadata, version, { step_number: this.#step, attempt: 1, is_complete: true });
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
    const pieces = [...this.#pieces.values()].map((piece) => piece.message);
    this.onChange([...this.#shown.messages, ...pieces], {
      conversation: this.#conversation,
      status: this.#status ?? this.#conversation?.status ?? null,
      connected: this.#connected,
      lastId: this.#lastId,
      refused: this.#refused,
    });
  }
}
