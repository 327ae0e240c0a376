/** Every key there is, to be searched. */

import { useState } from "react";

import { useStore } from "../lib/store";
import { Icon } from "../ui/Icon";
import { found, glossary, meaningsOf } from "./glossary";

export function GlossaryView() {
  const all = useStore(glossary);
  const [search, setSearch] = useState("");
  if (all === null) return null;
  const entries = found(all.values(), search);
  return (
    <details className="card folded glossary">
      <summary>
        <Icon name="chevron" size={16} /> <h2>Glossary</h2> <span className="muted">what each of the {all.size} keys means</span>
      </summary>
      <div className="search">
        <Icon name="search" size={17} />
        <input
          className="input"
          type="search"
          aria-label="Search the glossary"
          placeholder="Search…"
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
      </div>
      <dl>
        {entries.map((entry) => (
          <div key={entry.name}>
            <dt>
              <code>{entry.name}</code>
              {entry.unit !== "" && <span className="unit">{entry.unit}</span>}
            </dt>
            <dd>
              {meaningsOf(entry).map(({ place, meaning, unmeasured }) => (
                <p key={meaning}>
                  {place !== null && <span className="muted">{place}: </span>}
                  {meaning}
                  {unmeasured !== "" && <span className="muted"> No value if {unmeasured}.</span>}
                </p>
              ))}
            </dd>
          </div>
        ))}
      </dl>
      {entries.length === 0 && <p className="muted">Nothing is called like that.</p>}
    </details>
  );
}
