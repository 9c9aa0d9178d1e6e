// What a front end renders of a Steptrail session, `UiConversation`, or of a run of a workflow, `UiFlowRun`.
// Written by scripts/ui_contract.py from the models of steptrail.ui; a test fails when it is stale. Do not edit.
// A property that is absent is not known or not shown; none is ever null. Ignore properties that you do not know.

export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/**
 * The status of a session: that of its open execution, or of the last one.
 */
export type ExecutionStatus = "pending" | "in_progress" | "paused" | "waiting" | "completed" | "failed" | "stopped";

/**
 * The reason why a run stopped, in the words that dashboards use.
 */
export type StopReason = "completed" | "steps_limit" | "token_limit" | "time_limit" | "retry_limit" | "error" | "finish_reason" | "guard" | "user_requested";

/**
 * A question to a person: may this call run? `id` is what `approve` and `deny` take.
 *
 * It is also the id of the call's tool message. `digest` is the SHA-256 of the exact arguments; without an answer by
 * `expires_at` the call does not run.
 */
export interface UiApproval {
  readonly id: string;
  readonly tool: string;
  readonly digest: string;
  readonly expires_at: string;
  readonly asked_by: string;
  readonly reason?: string;
  readonly args?: { readonly [key: string]: JsonValue };
  readonly args_summary?: string;
}

/**
 * A source that an assistant message names; each key is there when the provider says it.
 *
 * `url` is an address of the web. `quote` is what stands in the source. `start` and `end` are the first character of
 * `content` that rests on it and the one after the last.
 */
export interface UiCitation {
  readonly url?: string;
  readonly title?: string;
  readonly quote?: string;
  readonly start?: number;
  readonly end?: number;
}

/**
 * The outcome of the newest decision; `resolved_by` is the short name of the criterion that decided it.
 */
export interface UiContinuation {
  readonly should_continue: boolean;
  readonly stop_reason?: StopReason;
  readonly resolved_by: string;
}

/**
 * A file beside the content: its SHA-256, under which it is fetched, its type, and its size in bytes.
 */
export interface UiFile {
  readonly digest: string;
  readonly mime_type: string;
  readonly size: number;
  readonly filename?: string;
}

/**
 * One message as it is rendered.
 *
 * `id` is unique in its conversation, and a message keeps it over reloads. `content` is what is shown of it at once,
 * as plain text. `timestamp` is ISO 8601 in UTC with milliseconds; for a tool it is when the model asked.
 */
export interface UiMessage {
  readonly id: string;
  readonly role: "user" | "assistant" | "tool" | "status";
  readonly content: string;
  readonly timestamp: string;
  readonly metadata?: UiMetadata;
}

/**
 * The details of a message beside its content. A result and an error exclude each other.
 *
 * `citations` are the sources of an assistant's words. `files` are those of a user's message, or of a tool's result.
 * `said_by` names the hook that put the message into the
 * conversation: no person said it. `waits_until` is when a call that waits goes on, or when the question about it
 * expires. `tool_result` is what the model was shown, `tool_result_summary` its beginning. `tool_duration_ms` is in
 * milliseconds.
 */
export interface UiMetadata {
  readonly tool_calls?: readonly UiToolCall[];
  readonly citations?: readonly UiCitation[];
  readonly files?: readonly UiFile[];
  readonly tool_call_id?: string;
  readonly tool_name?: string;
  readonly tool_status?: "pending" | "awaiting_approval" | "awaiting_result" | "running" | "retrying" | "suspended" | "parked" | "completed" | "failed" | "blocked" | "denied" | "cancelled" | "interrupted";
  readonly tool_result?: string;
  readonly tool_result_summary?: string;
  readonly tool_error?: string;
  readonly tool_duration_ms?: number;
  readonly waits_until?: string;
  readonly retry?: UiRetry;
  readonly said_by?: string;
  readonly status_type?: "thinking" | "tool_call" | "tool_result" | "error" | "info" | "continuation";
  readonly continuation?: UiContinuation;
}

/**
 * The try that is under way or comes next, from 1, and how many there may be.
 */
export interface UiRetry {
  readonly attempt: number;
  readonly of: number;
}

/**
 * A tool that an assistant message asks for.
 *
 * `id` is the model's own and may occur again in a later message; `message_id` is the id of the tool message that
 * shows what became of this call. `args` and `args_summary` are there when the configuration shows them.
 */
export interface UiToolCall {
  readonly id: string;
  readonly name: string;
  readonly message_id?: string;
  readonly args?: { readonly [key: string]: JsonValue };
  readonly args_summary?: string;
}

/**
 * All that a front end shows of a session, after `version` events.
 *
 * `stop_reason` is there once the last execution has ended, with `answered`: whether it came to an answer of its own,
 * also at a limit. `error_message` is there when it has failed. `last_response` is the newest answer. `retry` is there
 * while a failed step is tried again.
 */
export interface UiConversation {
  readonly session_id: string;
  readonly status: ExecutionStatus;
  readonly version: number;
  readonly messages: readonly UiMessage[];
  readonly approvals: readonly UiApproval[];
  readonly stop_reason?: StopReason;
  readonly answered?: boolean;
  readonly error_message?: string;
  readonly last_response?: string;
  readonly retry?: UiRetry;
}

/**
 * A failure after which the run went on: of a visit of a node, or of one item of a map.
 */
export interface UiFlowError {
  readonly node: string;
  readonly visit: number;
  readonly item?: number;
  readonly failure: string;
  readonly message: string;
}

/**
 * A node of the workflow, and where it stands. `ran` counts its visits that succeeded, `tries` its tries.
 */
export interface UiFlowNode {
  readonly id: string;
  readonly kind: string;
  readonly mark: "untouched" | "open" | "waiting" | "ran" | "tolerated" | "skipped" | "failed" | "cancelled";
  readonly ran: number;
  readonly tries: number;
}

/**
 * A question to a person that is open. `id` is what the answer is given to; for a held step it is the node.
 *
 * `type` says more of the kind: `approval`, `choice`, `edit`, `input`, `review`, or `before` and `after` of a step.
 * `data` are the variables that the node shows. `digest` is the SHA-256 of what is asked, or of the exact arguments.
 */
export interface UiFlowQuestion {
  readonly id: string;
  readonly kind: "approval" | "human" | "step" | "unknown_outcome";
  readonly node: string;
  readonly type?: string;
  readonly prompt?: string;
  readonly options?: readonly string[];
  readonly data?: { readonly [key: string]: JsonValue };
  readonly tool?: string;
  readonly args?: { readonly [key: string]: JsonValue };
  readonly args_summary?: string;
  readonly digest?: string;
  readonly expires_at?: string;
  readonly reason?: string;
}

/**
 * All that a front end shows of a run of a workflow, after `version` events.
 *
 * `stop_reason` and `output` are there once the last execution has ended, and `error_message` when it has failed. A
 * run may be completed and have `errors`. `nodes` are in the order of the graph.
 */
export interface UiFlowRun {
  readonly flow_id: string;
  readonly name: string;
  readonly status: ExecutionStatus;
  readonly version: number;
  readonly execution_id?: string;
  readonly nodes: readonly UiFlowNode[];
  readonly questions: readonly UiFlowQuestion[];
  readonly errors: readonly UiFlowError[];
  readonly stop_reason?: StopReason;
  readonly error_message?: string;
  readonly output?: JsonValue;
}
