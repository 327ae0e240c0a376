/** Conversations: the list, the one that is open, and the answer that is being written. */

import { ApiError, isAbort, json, messageOf, request } from "../api/client";
import { readEvents } from "../api/sse";
import type { Conversation, ConversationHead, Message } from "../api/types";
import { oncePerFrame } from "../lib/frame";
import { createStore } from "../lib/store";
import { setRunning } from "./live";
import {
  type Answer,
  type Failure,
  type ReplyRequest,
  again,
  answerStored,
  asked,
  editOf,
  retryOf,
  userStored,
  withText,
} from "./thread";

export const conversations = createStore<ConversationHead[] | null>(null);
export const open = createStore<Conversation | null>(null);
export const openError = createStore<string | null>(null);
export const answer = createStore<Answer | null>(null);
export const failure = createStore<Failure | null>(null);

const path = (id: string): string => `/api/conversations/${encodeURIComponent(id)}`;

const LOOKS = 8;
const LOOK_MS = 150;
/** About what a browser lays out and paints of Markdown, with room for everything else. */
const CHARACTERS_PER_MS = 60;
const ELSEWHERE_MS = 1000;

let abort: AbortController | null = null;

export async function loadConversations(): Promise<void> {
  conversations.set(await json<ConversationHead[]>("/api/conversations"));
}

/** Shows a conversation; the one that is asked for last wins. */
let wanted: string | null = null;

export async function openConversation(id: string | null): Promise<void> {
  wanted = id;
  openError.set(null);
  if (id === null) {
    open.set(null);
    return;
  }
  if (open.get()?.id === id) return;
  open.set(null);
  try {
    const conversation = await json<Conversation>(path(id));
    if (wanted !== id) return;
    open.set(conversation);
    if (conversation.messages.at(-1)?.state === "running") void followElsewhere(id);
  } catch (error) {
    if (wanted === id) openError.set(messageOf(error));
  }
}

export async function createConversation(): Promise<Conversation> {
  const head = await json<ConversationHead>("/api/conversations", { method: "POST", json: {} });
  conversations.set((all) => [head, ...(all ?? [])]);
  const conversation = { ...head, messages: [] };
  wanted = head.id;
  open.set(conversation);
  openError.set(null);
  return conversation;
}

export async function renameConversation(id: string, title: string): Promise<void> {
  await json(path(id), { method: "PATCH", json: { title } });
  const renamed = <T extends ConversationHead>(head: T): T =>
    head.id === id ? { ...head, title } : head;
  conversations.set((all) => all?.map(renamed) ?? null);
  open.set((current) => (current === null ? null : renamed(current)));
}

export async function deleteConversation(id: string): Promise<void> {
  if (answer.get()?.conversation === id) await stop();
  await request(path(id), { method: "DELETE" });
  conversations.set((all) => all?.filter((head) => head.id !== id) ?? null);
  if (open.get()?.id === id) open.set(null);
}

export function ask(content: string, thinking: boolean | null): Promise<void> {
  return reply({ content, ...(thinking === null ? {} : { thinking }) });
}

export function edit(id: string, content: string): Promise<void> {
  const conversation = open.get();
  return conversation === null
    ? Promise.resolve()
    : reply(editOf(conversation.messages, id, content));
}

export function retry(id: string): Promise<void> {
  const conversation = open.get();
  const again = conversation === null ? null : retryOf(conversation.messages, id);
  return again === null ? Promise.resolve() : reply(again);
}

export function askAgain(failed: Failure): Promise<void> {
  const conversation = open.get();
  return conversation === null ? Promise.resolve() : reply(again(conversation.messages, failed.asked));
}

/** Ends the answer as far as it came; the server keeps it. */
export async function stop(): Promise<void> {
  const current = answer.get();
  if (current === null) return;
  answer.set({ ...current, phase: "stopping" });
  // The engine's turn is ours once words have come; before that it may be somebody else's. To go
  // away stops ours wherever it is, but the server cannot tell us then what it has come to.
  if (current.phase === "waiting") {
    abort?.abort();
    return;
  }
  await request("/api/engine/cancel", { method: "POST" }).catch(() => abort?.abort());
}

/** Asks for a reply in the open conversation and follows it to its end. */
async function reply(body: ReplyRequest): Promise<void> {
  const conversation = open.get();
  if (conversation === null || answer.get() !== null) return;
  const { id } = conversation;
  const controller = new AbortController();
  abort = controller;
  failure.set(null);
  open.set(asked(conversation, body, new Date()));
  answer.set({ conversation: id, text: "", reasoning: "", phase: "waiting", startedAt: Date.now() });
  setRunning(true);
  try {
    const response = await request(`${path(id)}/reply`, {
      method: "POST",
      json: body,
      signal: controller.signal,
    });
    const ended = await followReply(id, response);
    if (!ended) throw new ApiError("The connection broke off while the answer was written.", 0);
  } catch (error) {
    if (!isAbort(error)) {
      const retryAfter = error instanceof ApiError ? error.retryAfter : null;
      failure.set({ conversation: id, message: messageOf(error), retryAfter, asked: body });
    }
    await reread(id);
  } finally {
    answer.set(null);
    setRunning(false);
    if (abort === controller) abort = null;
    void loadConversations().catch(() => undefined); // titles and order
  }
}

/** The piece that grows is laid out anew each time: the longer it is, the less often. */
function pauseForLast(): number {
  const text = answer.get()?.text ?? "";
  return (text.length - text.lastIndexOf("\n\n")) / CHARACTERS_PER_MS;
}

async function followReply(id: string, response: Response): Promise<boolean> {
  let text = "";
  let reasoning = "";
  const flush = oncePerFrame(() => {
    if (text === "" && reasoning === "") return;
    const [newText, newReasoning] = [text, reasoning];
    text = reasoning = "";
    answer.set((current) => (current === null ? null : withText(current, newText, newReasoning)));
  }, pauseForLast);
  for await (const { event, data } of readEvents(response)) {
    const value = JSON.parse(data) as Record<string, unknown>;
    if (event === "token") {
      text += (value["text"] as string | null) ?? "";
      reasoning += (value["reasoning"] as string | null) ?? "";
      flush.ask();
    } else if (event === "user") {
      change(id, (conversation) => userStored(conversation, value as unknown as Message));
      void loadConversations().catch(() => undefined); // the first question is the title
    } else if (event === "done") {
      flush.now();
      const message = value["message"] as Message;
      change(id, (conversation) => answerStored(conversation, message));
      return true;
    } else if (event === "error") {
      const error = (value["error"] ?? value) as { message?: string };
      throw new ApiError(error.message ?? "The answer failed.", 500);
    }
  }
  return false;
}

function change(id: string, how: (conversation: Conversation) => Conversation): void {
  open.set((current) => (current?.id === id ? how(current) : current));
}

/** Somebody else, or another window, is being answered in the open conversation. */
async function followElsewhere(id: string): Promise<void> {
  for (;;) {
    await new Promise((resolve) => window.setTimeout(resolve, ELSEWHERE_MS));
    if (wanted !== id || answer.get() !== null) return;
    try {
      const stored = await json<Conversation>(path(id));
      if (wanted !== id || answer.get() !== null) return;
      change(id, () => stored);
      if (stored.messages.at(-1)?.state !== "running") return;
    } catch {
      return;
    }
  }
}

/** What the server has kept of a reply that broke off, once it has noticed that it did. */
async function reread(id: string): Promise<void> {
  for (let look = 0; look < LOOKS; look += 1) {
    try {
      const stored = await json<Conversation>(path(id));
      change(id, () => stored);
      if (stored.messages.at(-1)?.state !== "running") return;
    } catch {
      return; // what is on the screen stays there
    }
    await new Promise((resolve) => window.setTimeout(resolve, LOOK_MS));
  }
}
