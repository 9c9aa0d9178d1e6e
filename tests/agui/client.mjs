// Runs commands that come as lines of JSON on the HttpAgent of a thread, and answers each with a line: what it saw and what it holds.
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client";

const [url] = process.argv.slice(2);
const headers = { Authorization: "ana" };
const agents = new Map();

async function run(agent, { say, id, cut, result, resume, drop, touch, runId, tools }) {
  const events = [];
  let failed = null;
  if (cut !== undefined) agent.setMessages(agent.messages.slice(0, cut));
  if (say !== undefined) agent.addMessage({ id: id ?? crypto.randomUUID(), role: "user", content: say });
  if (result !== undefined) agent.addMessage({ id: crypto.randomUUID(), role: "tool", ...result });
  const subscriber = {
    onEvent({ event }) {
      events.push(event);
      if (event.type === "TEXT_MESSAGE_CONTENT" && touch) writeFileSync(touch, "");
      if (event.type === drop) agent.abortRun();
    },
    onRunFailed({ error }) {
      failed = String(error.message ?? error);
    },
  };
  try {
    await agent.runAgent({ resume, runId, tools }, subscriber);
  } catch (error) {
    failed = String(error.message ?? error);
  }
  return { events, failed, messages: agent.messages, state: agent.state, pending: agent.pendingInterrupts };
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  const threadId = command.thread;
  if (command.reload || !agents.has(threadId)) agents.set(threadId, new HttpAgent({ url, threadId, headers }));
  console.log(JSON.stringify(await run(agents.get(threadId), command)));
}
