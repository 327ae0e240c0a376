/** A model on the server, with what is in it and whether it runs here. */

import { useState } from "react";

import type { ModelEntry } from "../api/types";
import { bytes } from "../lib/format";
import { useStore } from "../lib/store";
import { serverState } from "../state/server";
import { Icon } from "../ui/Icon";
import { Badge } from "../ui/parts";
import { InspectView } from "./InspectView";
import { PlanView } from "./PlanView";
import { loadModel } from "./actions";

export function ModelItem({ model }: { model: ModelEntry }) {
  const [open, setOpen] = useState(false);
  const loading = useStore(serverState, (state) => state?.phase === "loading" || state?.phase === "restarting");
  return (
    <li className="card model">
      <div className="model-head">
        <div className="model-what">
          <h3>{model.name}</h3>
          <p className="model-meta">
            {model.loaded && <Badge tone="good">loaded</Badge>}
            {model.quant !== null && <Badge>{model.quant}</Badge>}
            <span className="num">{bytes(model.size_bytes)}</span>
            <span>{model.source}</span>
          </p>
          {model.problem !== null && <p className="error-text">{model.problem}</p>}
        </div>
        <button
          type="button"
          className={model.loaded ? "button" : "button primary"}
          disabled={loading || model.problem !== null}
          onClick={() => void loadModel(model.reference)}
        >
          {model.loaded ? "Reload" : "Load"}
          <span className="visually-hidden"> {model.name}</span>
        </button>
      </div>
      <details className="folded inner" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <Icon name="chevron" size={16} /> What is in it, and does it run here?
        </summary>
        {open && (
          <div className="model-details">
            <PlanView reference={model.reference} />
            <InspectView reference={model.reference} />
          </div>
        )}
      </details>
    </li>
  );
}
