/** Memory of the engine against what it may take for experts, and what the machine has left. */

import type { TurnMetrics } from "../api/types";
import { mebibytes } from "../lib/format";
import { useStore } from "../lib/store";
import { serverState } from "../state/server";

export function MemoryMeter({ sample }: { sample: TurnMetrics | null }) {
  const memory = useStore(serverState, (state) => state?.memory ?? null);
  const used = sample?.rss_mib ?? memory?.used_mib ?? null;
  const budget = sample?.cache_budget_mib ?? memory?.budget_mib ?? null;
  const free = memory?.available_mib ?? null;
  if (used === null) return null;
  const whole = used + (free ?? 0);
  const share = (value: number): number => (whole > 0 ? Math.min((100 * value) / whole, 100) : 0);
  return (
    <div className="memory">
      <div className="memory-head">
        <span>Memory</span>
        <span className="num">
          {mebibytes(used)} {free !== null && <small>of {mebibytes(whole)}</small>}
        </span>
      </div>
      <div
        className="meter"
        role="img"
        aria-label={`The engine holds ${mebibytes(used)}; ${mebibytes(free)} more are available.`}
      >
        <span className="meter-used" style={{ width: `${share(used)}%` }} />
      </div>
      <p className="memory-note">
        {budget !== null && budget > 0
          ? `Expert cache may take ${mebibytes(budget)}`
          : "No experts are streamed"}
      </p>
    </div>
  );
}
