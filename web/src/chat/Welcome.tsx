/** What a first visit sees: what is loaded, what it is good for, and something to begin with. */

import { hrefOf } from "../lib/route";
import { useStore } from "../lib/store";
import { connection, serverState } from "../state/server";
import { LoadProgress } from "../shell/LoadProgress";
import { Mark } from "../ui/Mark";

const NANO = "moestream-nano";

const TRY_NANO = [
  "Tom looked at the old house and",
  "Once upon a time there was a little girl who",
  "The dog was very happy because",
];
const TRY = [
  "Explain why the sky is blue, in three sentences.",
  "Write a Python function that merges overlapping intervals.",
  "What should I consider before moving to another city?",
];

export function Welcome({ onPick }: { onPick: (text: string) => void }) {
  const state = useStore(serverState);
  const link = useStore(connection);
  const ready = state?.phase === "ready" && link === "open";
  const nano = state?.model?.name.includes(NANO) === true;
  return (
    <div className="welcome">
      <div className="welcome-body">
        <Mark size={52} />
        <h2>{ready ? "What is on your mind?" : "Welcome to moestream"}</h2>
        {ready && state.model !== null ? (
          <p className="welcome-model">
            <b>{state.model.name}</b>{" "}
            {nano ? (
              <>
                is a demonstration: it writes text that looks like language and knows nothing. For
                answers, <a href={hrefOf({ page: "models" })}>load a model that matters</a>.
              </>
            ) : (
              "answers on the machine that serves this page. Nothing you write leaves it."
            )}
          </p>
        ) : (
          <LoadProgress />
        )}
        {ready && (
          <ul className="suggestions">
            {(nano ? TRY_NANO : TRY).map((text) => (
              <li key={text}>
                <button type="button" onClick={() => onPick(text)}>
                  {text}
                </button>
              </li>
            ))}
          </ul>
        )}
      </div>
    </div>
  );
}
