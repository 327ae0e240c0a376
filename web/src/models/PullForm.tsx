/** Which model to fetch: owner, name, and the quantisation. */

import { useId, useState } from "react";

import { json, messageOf } from "../api/client";
import type { Pull } from "../api/types";
import { pulls, withPull } from "../state/server";
import { Icon } from "../ui/Icon";

const SHAPE = /^[\w][\w.-]*\/[\w][\w.-]*(:[\w./-]+)?$/;

export function PullForm() {
  const [reference, setReference] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [sending, setSending] = useState(false);
  const id = useId();

  async function send(): Promise<void> {
    const wanted = reference.trim().replace(/^https?:\/\/huggingface\.co\//, "").replace(/\/$/, "");
    if (!SHAPE.test(wanted)) {
      setError("That is not OWNER/NAME or OWNER/NAME:QUANT, such as unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M.");
      return;
    }
    setSending(true);
    setError(null);
    try {
      const pull = await json<Pull>("/api/pulls", { method: "POST", json: { reference: wanted } });
      pulls.set((all) => withPull(all, pull));
      setReference("");
    } catch (problem) {
      setError(messageOf(problem));
    } finally {
      setSending(false);
    }
  }

  return (
    <form
      className="pull-form"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <label className="label" htmlFor={id}>
        From the Hugging Face Hub
      </label>
      <div className="row">
        <input
          id={id}
          className="input grow"
          value={reference}
          placeholder="unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M"
          autoCapitalize="off"
          autoComplete="off"
          spellCheck={false}
          aria-invalid={error !== null}
          aria-describedby={`${id}-help`}
          onChange={(event) => setReference(event.target.value)}
        />
        <button type="submit" className="button primary" disabled={sending || reference.trim() === ""}>
          <Icon name="download" size={18} /> Pull
        </button>
      </div>
      <p id={`${id}-help`} className={error === null ? "setting-help" : "error-text"} role={error === null ? undefined : "alert"}>
        {error ?? "A repository with GGUF files, and behind the colon the quantisation. It can be cancelled and goes on where it stopped."}
      </p>
    </form>
  );
}
