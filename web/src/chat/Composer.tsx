/** Where a question is written; while an answer runs, where it is stopped. */

import { useEffect, useRef, useState } from "react";

import { useStore } from "../lib/store";
import { answer, stop } from "../state/chat";
import { connection, serverState } from "../state/server";
import { settings } from "../state/settings";
import { Icon } from "../ui/Icon";
import { Growing } from "./Growing";

const THINK = "moestream.think";

interface Props {
  onAsk: (text: string, thinking: boolean | null) => Promise<void>;
  draft: string;
  onDraft: (text: string) => void;
}

export function Composer({ onAsk, draft, onDraft }: Props) {
  const running = useStore(answer);
  const ready = useStore(serverState, (state) => state?.phase === "ready");
  const phase = useStore(serverState, (state) => state?.phase ?? null);
  const link = useStore(connection);
  const byDefault = useStore(settings, (all) => all?.values["enable_thinking"] ?? null);
  const [thinking, setThinking] = useState<boolean | null>(storedThinking);
  const input = useRef<HTMLTextAreaElement>(null);
  const reachable = link !== "lost" && ready;
  const possible = reachable && running === null && draft.trim() !== "";

  useEffect(() => {
    function press(event: KeyboardEvent): void {
      const typing = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
      if (event.key === "Escape" && answer.get() !== null && !document.querySelector("dialog[open]")) {
        void stop();
      } else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        input.current?.focus();
      }
    }
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);

  function send(): void {
    if (!possible) return;
    const text = draft.trim();
    onDraft("");
    void onAsk(text, thinking);
  }

  const thinks = thinking ?? byDefault === true;
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <div className="composer-box">
        <Growing
          label="Your message"
          value={draft}
          onChange={onDraft}
          onEnter={send}
          inputRef={input}
          placeholder={placeholderOf(link, phase)}
        />
        <div className="composer-row">
          <button
            type="button"
            className={`chip ${thinks ? "on" : ""}`}
            aria-pressed={thinks}
            title="Let the model think before it answers, if it can"
            onClick={() => {
              setThinking(!thinks);
              storeThinking(!thinks);
            }}
          >
            <Icon name="thought" size={16} /> Think
          </button>
          <span className="composer-hint" aria-hidden="true">
            <kbd>Enter</kbd> sends · <kbd>Shift</kbd>+<kbd>Enter</kbd> new line
          </span>
          {running === null ? (
            <button type="submit" className="send" disabled={!possible} aria-label="Send">
              <Icon name="send" />
            </button>
          ) : (
            <button
              type="button"
              className="send stop"
              disabled={running.phase === "stopping"}
              aria-label="Stop the answer"
              title="Stop (Esc)"
              onClick={() => void stop()}
            >
              <Icon name="stop" />
            </button>
          )}
        </div>
      </div>
    </form>
  );
}

function placeholderOf(link: string, phase: string | null): string {
  if (link === "lost") return "The server is away. You can write already…";
  if (phase === "loading") return "The model is being loaded. You can write already…";
  if (phase === "restarting") return "The engine is restarting. You can write already…";
  if (phase === "unloaded" || phase === "failed") return "No model is loaded";
  return "Ask something…";
}

function storedThinking(): boolean | null {
  try {
    const stored = localStorage.getItem(THINK);
    return stored === null ? null : stored === "1";
  } catch {
    return null;
  }
}

function storeThinking(value: boolean): void {
  try {
    localStorage.setItem(THINK, value ? "1" : "0");
  } catch {
    // It holds until the page is closed.
  }
}
