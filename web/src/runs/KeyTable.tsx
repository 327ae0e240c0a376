/** Keys with their values, in columns where there is room; what nothing was measured for is left out. */

import type { Cell, Place } from "../api/types";
import { cell } from "../lib/format";
import { Key } from "./Key";

export function KeyTable({ values, place }: { values: Readonly<Record<string, Cell>>; place: Place }) {
  const known = Object.entries(values).filter(([, value]) => value !== null && value !== "");
  return (
    <dl className="key-table">
      {known.map(([key, value]) => (
        <div key={key}>
          <dt>
            <Key name={key} place={place} />
          </dt>
          <dd className="num">{cell(value)}</dd>
        </div>
      ))}
    </dl>
  );
}
