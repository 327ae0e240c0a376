/** A switch: its name, one line on what it does, and the control that fits its kind. */

import { type ReactNode, useId, useState } from "react";

import { ApiError, messageOf } from "../api/client";
import type { SettingSchema, SettingValue, SettingValues } from "../api/types";
import { capital } from "../lib/format";
import { changeSettings } from "../state/settings";
import { Icon } from "../ui/Icon";
import { notify } from "../ui/notices";
import { Badge, Segmented } from "../ui/parts";
import { NumberField, TextField } from "./fields";
import { applies, choiceName, whyNot } from "./logic";

interface Props {
  setting: SettingSchema;
  schema: readonly SettingSchema[];
  values: SettingValues;
  pending: boolean;
}

export function SettingRow({ setting, schema, values, pending }: Props) {
  const [error, setError] = useState<string | null>(null);
  const id = useId();
  const value = values[setting.key] ?? null;
  const inEffect = applies(setting, values);
  const changed = value !== setting.default;

  async function change(next: SettingValue): Promise<boolean> {
    setError(null);
    if (next === value) return true;
    try {
      // What was typed stays as it was typed until it is taken; what was pressed moves at once.
      const pressed = setting.kind === "bool" || setting.kind === "choice";
      await changeSettings({ [setting.key]: next }, pressed ? "at once" : undefined);
      return true;
    } catch (problem) {
      const mine = !(problem instanceof ApiError) || problem.param === null || problem.param.endsWith(setting.key);
      if (mine) setError(messageOf(problem));
      else notify(messageOf(problem), "error");
      return false;
    }
  }

  const help = `${id}-help`;
  const problem = `${id}-error`;
  const described = error === null ? help : `${help} ${problem}`;
  return (
    <div className={`setting ${setting.kind} ${inEffect ? "" : "idle"}`} data-setting={setting.key}>
      <div className="setting-text">
        <label className="setting-label" htmlFor={id}>
          {setting.label}
        </label>
        {setting.lossy && <Badge tone="lossy">lossy</Badge>}
        {pending && <Badge tone="pending">waits for reload</Badge>}
        <p id={help} className="setting-help">
          {helpOf(setting)} {!inEffect && <em>{whyNot(setting, schema)}</em>}
        </p>
        {error !== null && (
          <p id={problem} className="error-text" role="alert">
            {error}
          </p>
        )}
      </div>
      <div className="setting-control">
        {changed && inEffect && (
          <button
            type="button"
            className="quiet-button"
            aria-label={`Reset ${setting.label} to its default`}
            title={`Default: ${choiceName(setting.default, setting.null_means)}`}
            onClick={() => void change(setting.default)}
          >
            <Icon name="retry" size={15} />
          </button>
        )}
        <Control {...{ id, setting, value, described, change }} disabled={!inEffect} invalid={error !== null} onTypo={setError} />
      </div>
    </div>
  );
}

interface ControlProps {
  id: string;
  setting: SettingSchema;
  value: SettingValue;
  disabled: boolean;
  invalid: boolean;
  described: string;
  change: (value: SettingValue) => Promise<boolean>;
  onTypo: (error: string | null) => void;
}

function Control(props: ControlProps): ReactNode {
  const { id, setting, value, disabled, described, change } = props;
  if (setting.kind === "bool" && !setting.nullable) {
    return (
      <input
        id={id}
        type="checkbox"
        role="switch"
        className="switch"
        checked={value === true}
        disabled={disabled}
        aria-describedby={described}
        onChange={(event) => void change(event.target.checked)}
      />
    );
  }
  if (setting.kind === "bool" || setting.kind === "choice") {
    const choices = setting.kind === "bool" ? [null, true, false] : (setting.choices ?? []);
    const nameOf = (choice: SettingValue): string => (choice === null ? "Auto" : capital(choiceName(choice)));
    return (
      <Segmented
        label={setting.label}
        name={setting.key}
        value={JSON.stringify(value)}
        disabled={disabled}
        describedBy={described}
        options={choices.map((choice) => ({
          value: JSON.stringify(choice),
          label: setting.kind === "choice" ? choiceName(choice) : nameOf(choice),
        }))}
        onChange={(next) => void change(JSON.parse(next) as SettingValue)}
      />
    );
  }
  return setting.kind === "text" ? <TextField {...props} /> : <NumberField {...props} />;
}

/** The line of help, without what is a badge here. */
function helpOf(setting: SettingSchema): string {
  return setting.lossy ? capital(setting.help.replace(/^Lossy: /, "")) : setting.help;
}
