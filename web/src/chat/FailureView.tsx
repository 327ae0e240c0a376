/** An answer that did not come to its end: why, and what can be done. */

import { useEffect, useState } from "react";

import { useStore } from "../lib/store";
import { connection, serverState } from "../state/server";
import type { Failure } from "../state/thread";
import { Icon } from "../ui/Icon";

export function FailureView({ failure, onRetry }: { failure: Failure; onRetry: () => void }) {
  const ready = useStore(serverState, (state) => state?.phase === "ready");
  const link = useStore(connection);
  const [wait, setWait] = useState(Math.ceil(failure.retryAfter ?? 0));
  useEffect(() => {
    if (wait <= 0) return undefined;
    const timer = window.setTimeout(() => setWait(wait - 1), 1000);
    return () => window.clearTimeout(timer);
  }, [wait]);
  const possible = ready && link === "open" && wait <= 0;
  return (
    <div className="failure" role="alert">
      <Icon name="warning" />
      <p>{failure.message}</p>
      <button type="button" className="button" disabled={!possible} onClick={onRetry}>
        <Icon name="retry" size={16} /> {wait > 0 ? `Try again in ${wait} s` : "Try again"}
      </button>
    </div>
  );
}
