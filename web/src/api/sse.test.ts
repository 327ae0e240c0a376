import { describe, expect, it } from "vitest";

import { EventParser, readEvents } from "./sse";

const STREAM = ': hello\n\nevent: token\ndata: {"text":"a"}\n\ndata: one\ndata: two\n\nevent: empty\n\n';
const EVENTS = [
  { event: "token", data: '{"text":"a"}' },
  { event: "message", data: "one\ntwo" },
];

describe("EventParser", () => {
  it("reads events, joins data lines, and skips comments and events without data", () => {
    expect(new EventParser().push(STREAM)).toEqual(EVENTS);
  });

  it.each(["\n", "\r\n", "\r"])("takes any line end, cut anywhere (%j)", (end) => {
    const text = `${STREAM.replaceAll("\n", end)}`;
    for (let size = 1; size < 8; size += 1) {
      const parser = new EventParser();
      const found = [];
      for (let at = 0; at < text.length; at += size) found.push(...parser.push(text.slice(at, at + size)));
      found.push(...parser.push("event: x")); // shows that a last carriage return was an end
      expect(found).toEqual(EVENTS);
    }
  });

  it("does not give an event before its empty line", () => {
    const parser = new EventParser();
    expect(parser.push("event: done\ndata: 1\n")).toEqual([]);
    expect(parser.push("\n")).toEqual([{ event: "done", data: "1" }]);
  });

  it("takes off one space only, and knows fields without a value", () => {
    expect(new EventParser().push("data:  x\ndata\n\n")).toEqual([{ event: "message", data: " x\n" }]);
  });
});

describe("readEvents", () => {
  it("puts characters together that arrive in halves, and says when anything was heard", async () => {
    const bytes = new TextEncoder().encode('data: "ö€😀"\n\n');
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    let heard = 0;
    const events = [];
    for await (const event of readEvents(new Response(body), () => (heard += 1))) events.push(event);
    expect(events).toEqual([{ event: "message", data: '"ö€😀"' }]);
    expect(heard).toBe(bytes.length);
  });
});
