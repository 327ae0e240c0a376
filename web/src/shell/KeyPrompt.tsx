/** Asks for the API key when the server wants one. */

import { useId, useState } from "react";

import { keyRefused, rememberKey } from "../api/key";
import { useStore } from "../lib/store";
import { Dialog } from "../ui/Dialog";

export function KeyPrompt() {
  const refusal = useStore(keyRefused);
  return refusal === null ? null : <KeyForm wrong={refusal === "wrong"} />;
}

function KeyForm({ wrong }: { wrong: boolean }) {
  const [key, setKey] = useState("");
  const [shown, setShown] = useState(false);
  const id = useId();
  return (
    <Dialog title="This server asks for a key" onClose={() => undefined} dismissable={false}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (key.trim() !== "") rememberKey(key.trim());
        }}
      >
        <p className="dialog-text">
          It was started with <code>--api-key</code>. The key is kept in this browser and sent to
          this server only.
        </p>
        <label className="label" htmlFor={id}>
          API key
        </label>
        <div className="row">
          <input
            id={id}
            className="input grow"
            type={shown ? "text" : "password"}
            autoComplete="current-password"
            autoFocus
            value={key}
            aria-invalid={wrong}
            aria-describedby={wrong ? `${id}-wrong` : undefined}
            onChange={(event) => setKey(event.target.value)}
          />
          <button type="button" className="button" aria-pressed={shown} onClick={() => setShown(!shown)}>
            {shown ? "Hide" : "Show"}
          </button>
        </div>
        {wrong && (
          <p id={`${id}-wrong`} className="error-text" role="alert">
            The server did not accept that key.
          </p>
        )}
        <div className="dialog-actions">
          <button type="submit" className="button primary" disabled={key.trim() === ""}>
            Continue
          </button>
        </div>
      </form>
    </Dialog>
  );
}
