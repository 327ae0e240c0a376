/** A conversation on the screen, as plain data: what happens to it when something arrives. */

import type { Conversation, Message } from "../api/types";

/** Where an answer is: asked for, being written, or stopping. */
export type AnswerPhase = "waiting" | "thinking" | "writing" | "stopping";

export interface Answer {
  conversation: string;
  text: string;
  reasoning: string;
  phase: AnswerPhase;
  startedAt: number;
}

/** What to do about a reply that failed, and why it did. */
export interface Failure {
  conversation: string;
  message: string;
  /** Seconds after which the server wants to be asked again. */
  retryAfter: number | null;
  /** What was asked, to ask it again. */
  asked: ReplyRequest;
}

export interface ReplyRequest {
  content?: string;
  after?: string | null;
  thinking?: boolean;
}

export const PENDING_ID = "pending";

/** Messages up to and including the one called `id`; none for `null`. */
export function upTo(messages: Message[], id: string | null): Message[] {
  if (id === null) return [];
  const index = messages.findIndex((message) => message.id === id);
  return index < 0 ? messages : messages.slice(0, index + 1);
}

/** The conversation at the moment a reply is asked for, before the server has said anything. */
export function asked(conversation: Conversation, reply: ReplyRequest, now: Date): Conversation {
  const kept =
    reply.after === undefined ? conversation.messages : upTo(conversation.messages, reply.after);
  if (reply.content === undefined) return { ...conversation, messages: kept };
  const message: Message = {
    id: PENDING_ID,
    role: "user",
    content: reply.content,
    reasoning: null,
    created: now.getTime() / 1000,
    state: "complete",
    stats: null,
  };
  return { ...conversation, messages: [...kept, message] };
}

/** The user's message as the server has stored it. */
export function userStored(conversation: Conversation, message: Message): Conversation {
  const messages = conversation.messages.filter(
    (other) => other.id !== PENDING_ID && other.id !== message.id,
  );
  return { ...conversation, messages: [...messages, message] };
}

export function answerStored(conversation: Conversation, message: Message): Conversation {
  const messages = conversation.messages.filter((other) => other.id !== message.id);
  return { ...conversation, messages: [...messages, message] };
}

export function withText(answer: Answer, text: string, reasoning: string): Answer {
  const whole = answer.text + text;
  const thought = answer.reasoning + reasoning;
  const phase = answer.phase === "stopping" ? "stopping" : whole !== "" ? "writing" : "thinking";
  return { ...answer, text: whole, reasoning: thought, phase };
}

/** Edit: everything from this message on goes, and the new text is asked instead. */
export function editOf(messages: Message[], id: string, content: string): ReplyRequest {
  const index = messages.findIndex((message) => message.id === id);
  return { content, after: index > 0 ? (messages[index - 1]?.id ?? null) : null };
}

/** How to ask once more after a failure: the question may have been kept, or a part of the answer. */
export function again(messages: Message[], body: ReplyRequest): ReplyRequest {
  if (body.content === undefined) return body;
  const asked = messages.findLast(({ role }) => role === "user");
  const unanswered = messages.at(-1)?.state !== "complete" || messages.at(-1)?.role === "user";
  if (asked === undefined || asked.content !== body.content || !unanswered) return body;
  return { after: asked.id, ...(body.thinking === undefined ? {} : { thinking: body.thinking }) };
}

/** Retry: back to the question that this message answers, or is. */
export function retryOf(messages: Message[], id: string): ReplyRequest | null {
  let index = messages.findIndex((message) => message.id === id);
  while (index >= 0 && messages[index]?.role !== "user") index -= 1;
  const question = messages[index];
  return question === undefined ? null : { after: question.id };
}
