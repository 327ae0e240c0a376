/** Something from the server for a component: loading, there, or failed, and a way to ask again. */

import { useCallback, useEffect, useRef, useState } from "react";

import { isAbort, messageOf } from "../api/client";

export interface Loaded<T> {
  value: T | null;
  error: string | null;
  reload: () => void;
  set: (value: T) => void;
}

/** `key` says what is asked for: another key forgets the value. */
export function useLoad<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ key: string; value: T | null; error: string | null }>({
    key,
    value: null,
    error: null,
  });
  const [attempt, setAttempt] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const abort = new AbortController();
    latest.current(abort.signal).then(
      (value) => {
        if (!abort.signal.aborted) setState({ key, value, error: null });
      },
      (error: unknown) => {
        if (abort.signal.aborted || isAbort(error)) return;
        setState((old) => ({
          key,
          value: old.key === key ? old.value : null,
          error: messageOf(error),
        }));
      },
    );
    return () => abort.abort();
  }, [key, attempt]);
  const reload = useCallback(() => setAttempt((count) => count + 1), []);
  const set = useCallback((value: T) => setState({ key, value, error: null }), [key]);
  const current = state.key === key;
  return { value: current ? state.value : null, error: current ? state.error : null, reload, set };
}
