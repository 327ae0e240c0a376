/**
 * Server-sent events out of a fetch stream. `EventSource` would not do: it sends no API key, posts
 * nothing, and hides what the server answered when it refuses.
 */

export interface ServerEvent {
  event: string;
  data: string;
}

/** Takes text in pieces of any length and gives the events that became complete with each. */
export class EventParser {
  private rest = "";
  private event = "";
  private data: string[] = [];

  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    this.rest += text;
    // A carriage return at the end may be half of a line end.
    const held = this.rest.endsWith("\r") ? 1 : 0;
    const complete = this.rest.slice(0, this.rest.length - held);
    const lines = complete.split(/\r\n|\n|\r/);
    this.rest = (lines.pop() ?? "") + (held ? "\r" : "");
    for (const line of lines) {
      const done = this.line(line);
      if (done !== null) events.push(done);
    }
    return events;
  }

  private line(line: string): ServerEvent | null {
    if (line === "") {
      const event = { event: this.event || "message", data: this.data.join("\n") };
      const empty = this.data.length === 0;
      this.event = "";
      this.data = [];
      return empty ? null : event;
    }
    if (line.startsWith(":")) return null; // a comment keeps the line alive
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.event = value;
    if (field === "data") this.data.push(value);
    return null;
  }
}

/** The events of a response, until it ends; `heard` is called for whatever arrives, comments too. */
export async function* readEvents(
  response: Response,
  heard?: () => void,
): AsyncGenerator<ServerEvent> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard?.();
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
