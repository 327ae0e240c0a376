/** Who drafts: off, the model's own head, or what was said before; and what the last answer made of it. */

import { useId } from "react";

import type { SettingSchema, SettingValues } from "../api/types";
import { number, percent, rate } from "../lib/format";
import { useStore } from "../lib/store";
import { drafts } from "../live/figures";
import { live } from "../state/live";
import { serverState } from "../state/server";
import { changeSettings } from "../state/settings";
import { attempt } from "../ui/notices";
import { Badge, Segmented } from "../ui/parts";

const SOURCES = [
  { value: "none", label: "Off" },
  { value: "mtp", label: "MTP head" },
  { value: "ngram", label: "N-gram" },
] as const;

type Source = (typeof SOURCES)[number]["value"];

export function DraftPicker(props: { setting: SettingSchema; values: SettingValues; pending: boolean }) {
  const { setting, values, pending } = props;
  const headless = useStore(serverState, (state) => state?.report?.["n_layer_nextn"] === 0);
  const value = (values[setting.key] ?? "none") as Source;
  const helpOf = (source: Source): string => setting.choice_help[source] ?? "";
  const id = useId();
  return (
    <div className="setting draft" data-setting={setting.key}>
      <div className="setting-text">
        <span className="setting-label">{setting.label}</span>
        {pending && <Badge tone="pending">waits for reload</Badge>}
        <p id={id} className="setting-help">
          {setting.help}
        </p>
      </div>
      <Segmented
        label={setting.label}
        name={setting.key}
        value={value}
        describedBy={id}
        options={SOURCES.map((source) => ({
          value: source.value,
          label: source.label,
          hint: helpOf(source.value),
          disabled: source.value === "mtp" && headless && value !== "mtp",
        }))}
        onChange={(next) => void attempt(() => changeSettings({ [setting.key]: next }, "at once"))}
      />
      <p className="draft-says">
        {helpOf(value)}
        {value !== "none" && Number(values["temperature"]) > 0 && (
          <> The temperature is {number(Number(values["temperature"]))}: answers are written without drafts, which need a temperature of 0.</>
        )}
        {headless && value !== "mtp" && " The model that is loaded has no MTP head."}
      </p>
      <LastAnswer />
    </div>
  );
}

function LastAnswer() {
  const { samples } = useStore(live);
  const last = samples.at(-1);
  if (last === undefined) return null;
  return (
    <dl className="facts" aria-label="Last answer">
      <div>
        <dt>Last answer</dt>
        <dd className="num">{rate(last.effective_tok_s)} tok/s effective</dd>
      </div>
      {drafts(samples) && (
        <>
          <div>
            <dt>Acceptance</dt>
            <dd className="num">{percent(last.acceptance_pct)}</dd>
          </div>
          <div>
            <dt>Tokens per pass</dt>
            <dd className="num">{number(last.tokens_per_pass)}</dd>
          </div>
        </>
      )}
    </dl>
  );
}
