/** Fields that are typed into: what was typed is sent when it is finished, not with each key. */

import { useEffect, useState } from "react";

import type { SettingSchema, SettingValue } from "../api/types";
import { Icon } from "../ui/Icon";
import { parseNumber } from "./logic";

interface Props {
  id: string;
  setting: SettingSchema;
  value: SettingValue;
  disabled: boolean;
  invalid: boolean;
  described: string;
  change: (value: SettingValue) => Promise<boolean>;
  onTypo: (error: string | null) => void;
}

export function NumberField(props: Props) {
  const { setting, value, disabled } = props;
  const shown = value === null ? "" : String(value);
  const [text, setText] = useState(shown);
  useEffect(() => setText(shown), [shown]);

  function take(typed: string): void {
    const parsed = parseNumber(setting, typed);
    if ("error" in parsed) props.onTypo(parsed.error);
    else void props.change(parsed.value).then((taken) => taken && setText(parsed.value === null ? "" : String(parsed.value)));
  }

  const steps = setting.kind === "int" && setting.maximum !== null && setting.maximum <= 64;
  const step = (by: number): void => take(String((typeof value === "number" ? value : 0) + by));
  return (
    <span className={`number-field ${steps ? "stepped" : ""}`}>
      {steps && (
        <button type="button" tabIndex={-1} aria-hidden="true" disabled={disabled || value === setting.minimum} onClick={() => step(-1)}>
          <Icon name="minus" size={15} />
        </button>
      )}
      <input
        id={props.id}
        className="input num"
        inputMode={setting.kind === "int" ? "numeric" : "decimal"}
        autoComplete="off"
        value={text}
        placeholder={setting.nullable ? (setting.null_means ?? "auto") : undefined}
        title={setting.nullable ? (setting.null_means ?? "auto") : undefined}
        disabled={disabled}
        aria-invalid={props.invalid}
        aria-describedby={props.described}
        onChange={(event) => setText(event.target.value)}
        onBlur={() => text !== shown && take(text)}
        onKeyDown={(event) => {
          if (event.key === "Enter") take(text);
          if (event.key === "Escape") {
            setText(shown);
            props.onTypo(null);
          }
          if (steps && event.key === "ArrowUp") step(1);
          if (steps && event.key === "ArrowDown") step(-1);
        }}
      />
      {steps && (
        <button type="button" tabIndex={-1} aria-hidden="true" disabled={disabled || value === setting.maximum} onClick={() => step(1)}>
          <Icon name="plus" size={15} />
        </button>
      )}
    </span>
  );
}

export function TextField(props: Props) {
  const shown = typeof props.value === "string" ? props.value : "";
  const [text, setText] = useState(shown);
  useEffect(() => setText(shown), [shown]);
  return (
    <textarea
      id={props.id}
      className="input"
      rows={3}
      value={text}
      placeholder="None"
      disabled={props.disabled}
      aria-invalid={props.invalid}
      aria-describedby={props.described}
      onChange={(event) => setText(event.target.value)}
      onBlur={() => text !== shown && void props.change(text)}
    />
  );
}
