import { describe, expect, it } from "vitest";

import type { Conversation, Message } from "../api/types";
import { PENDING_ID, again, answerStored, asked, editOf, retryOf, userStored, withText } from "./thread";

function message(id: string, role: Message["role"], content = id, state: Message["state"] = "complete"): Message {
  return { id, role, content, reasoning: "", created: 0, state, stats: null };
}

const MESSAGES = [message("q1", "user"), message("a1", "assistant"), message("q2", "user"), message("a2", "assistant")];
const CONVERSATION: Conversation = { id: "c", title: "", created: 0, updated: 0, messages: MESSAGES };
const NOW = new Date(5000);
const ids = (conversation: Conversation): string[] => conversation.messages.map(({ id }) => id);

describe("a reply is asked for", () => {
  it("puts the question at the end until the server has stored it", () => {
    const shown = asked(CONVERSATION, { content: "new" }, NOW);
    expect(ids(shown)).toEqual(["q1", "a1", "q2", "a2", PENDING_ID]);
    expect(shown.messages.at(-1)).toMatchObject({ role: "user", content: "new", created: 5 });
    expect(ids(userStored(shown, message("q3", "user")))).toEqual(["q1", "a1", "q2", "a2", "q3"]);
  });

  it("cuts what an edit replaces", () => {
    expect(editOf(MESSAGES, "q2", "other")).toEqual({ content: "other", after: "a1" });
    expect(editOf(MESSAGES, "q1", "other")).toEqual({ content: "other", after: null });
    expect(ids(asked(CONVERSATION, { content: "other", after: "a1" }, NOW))).toEqual(["q1", "a1", PENDING_ID]);
    expect(ids(asked(CONVERSATION, { content: "other", after: null }, NOW))).toEqual([PENDING_ID]);
  });

  it("goes back to the question for a retry, without asking it twice", () => {
    expect(retryOf(MESSAGES, "a2")).toEqual({ after: "q2" });
    expect(retryOf(MESSAGES, "q1")).toEqual({ after: "q1" });
    expect(retryOf([message("a", "assistant")], "a")).toBeNull();
    const shown = asked(CONVERSATION, { after: "q2" }, NOW);
    expect(ids(shown)).toEqual(["q1", "a1", "q2"]);
    expect(ids(userStored(shown, message("q2", "user")))).toEqual(["q1", "a1", "q2"]);
  });

  it("stores an answer once", () => {
    const once = answerStored(CONVERSATION, message("a3", "assistant"));
    expect(ids(answerStored(once, message("a3", "assistant")))).toEqual(["q1", "a1", "q2", "a2", "a3"]);
  });
});

describe("after a failure", () => {
  it("asks again without doubling a question that was kept", () => {
    const kept = [...MESSAGES, message("q3", "user", "why?")];
    expect(again(kept, { content: "why?", thinking: true })).toEqual({ after: "q3", thinking: true });
    const half = [...kept, message("a3", "assistant", "beca", "failed")];
    expect(again(half, { content: "why?" })).toEqual({ after: "q3" });
  });

  it("asks in full what was not kept", () => {
    const edit = { content: "why?", after: "a1" };
    expect(again(MESSAGES, edit)).toBe(edit);
    expect(again([], { content: "why?" })).toEqual({ content: "why?" });
    const complete = [message("q", "user", "why?"), message("a", "assistant")];
    expect(again(complete, { content: "why?" })).toEqual({ content: "why?" });
  });
});

describe("an answer grows", () => {
  const start = { conversation: "c", text: "", reasoning: "", phase: "waiting", startedAt: 0 } as const;
  it("from waiting to thinking to writing", () => {
    const thinking = withText(start, "", "hm");
    expect(thinking).toMatchObject({ phase: "thinking", reasoning: "hm", text: "" });
    const writing = withText(withText(thinking, "a", ""), "b", "");
    expect(writing).toMatchObject({ phase: "writing", reasoning: "hm", text: "ab" });
    expect(withText({ ...writing, phase: "stopping" }, "c", "")).toMatchObject({ phase: "stopping", text: "abc" });
  });
});
