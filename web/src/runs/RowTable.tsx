/** The rows of a run, a page at a time. */

import { useState } from "react";

import type { Cell } from "../api/types";
import { cell, count } from "../lib/format";
import { Icon } from "../ui/Icon";
import { Key } from "./Key";

const PAGE = 50;

export function RowTable({ columns, rows, total }: { columns: readonly string[]; rows: readonly Cell[][]; total: number }) {
  const [page, setPage] = useState(0);
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const shown = rows.slice(page * PAGE, (page + 1) * PAGE);
  return (
    <>
      <div className="table-scroll rows" tabIndex={0} role="group" aria-label="Rows of the run">
        <table>
          <thead>
            <tr>
              {columns.map((name) => (
                <th key={name} scope="col">
                  <Key name={name} place="token" />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, i) => (
              <tr key={page * PAGE + i}>
                {row.map((value, column) => (
                  <td key={columns[column]} className="num">
                    {cell(value)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div className="pager">
        <button type="button" className="button small" disabled={page === 0} onClick={() => setPage(page - 1)}>
          <Icon name="back" size={16} /> Before
        </button>
        <span className="num" aria-live="polite">
          {rows.length === 0 ? "No rows" : `${count(page * PAGE + 1)}–${count(Math.min((page + 1) * PAGE, rows.length))} of ${count(rows.length)}`}
          {rows.length < total && ` (the file has ${count(total)})`}
        </span>
        <button type="button" className="button small" disabled={page >= pages - 1} onClick={() => setPage(page + 1)}>
          Next <Icon name="chevron" size={16} />
        </button>
      </div>
    </>
  );
}
