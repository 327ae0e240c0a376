/** Small things that several pages use. */

import { type ReactNode, useState } from "react";

import { Icon, type IconName } from "./Icon";

export function Spinner({ label }: { label: string }) {
  return (
    <span className="spinner" role="status">
      <span className="spinner-ring" aria-hidden="true" />
      <span>{label}</span>
    </span>
  );
}

/** Progress from 0 to 1; `null` is "under way, nobody knows how far". */
export function Progress({ value, label }: { value: number | null; label: string }) {
  const known = value !== null;
  const share = Math.min(Math.max(value ?? 0, 0), 1);
  return (
    <div
      className={`progress ${known ? "" : "unknown"}`}
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      {...(known ? { "aria-valuenow": Math.round(share * 100) } : {})}
    >
      <div className="progress-bar" style={known ? { width: `${share * 100}%` } : undefined} />
    </div>
  );
}

export function Badge({ children, tone = "plain" }: { children: ReactNode; tone?: string }) {
  return <span className={`badge ${tone}`}>{children}</span>;
}

export function Empty(props: { icon: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <span className="empty-icon">
        <Icon name={props.icon} size={26} />
      </span>
      <h2>{props.title}</h2>
      {props.children}
    </div>
  );
}

/** What could not be fetched, why, and a way to try it again. */
export function Failed({ message, retry }: { message: string; retry: () => void }) {
  return (
    <div className="failed" role="alert">
      <Icon name="warning" />
      <p>{message}</p>
      <button type="button" className="button" onClick={retry}>
        Try again
      </button>
    </div>
  );
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <button
      type="button"
      className="quiet-button"
      aria-label={copied ? "Copied" : label}
      title={copied ? "Copied" : label}
      onClick={() => {
        void copyText(text).then((done) => {
          setCopied(done);
          if (done) window.setTimeout(() => setCopied(false), 1600);
        });
      }}
    >
      <Icon name={copied ? "check" : "copy"} size={16} />
    </button>
  );
}

/** The clipboard is there on localhost and https only; elsewhere the old way still works. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.setAttribute("readonly", "");
    area.className = "visually-hidden";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** A choice of a few, all visible: radio buttons in the shape of one control. */
export function Segmented<T extends string>(props: {
  label: string;
  value: T;
  options: readonly { value: T; label: string; hint?: string; disabled?: boolean }[];
  onChange: (value: T) => void;
  name: string;
  disabled?: boolean;
  describedBy?: string;
}) {
  return (
    <fieldset
      className="segmented"
      disabled={props.disabled}
      aria-describedby={props.describedBy}
    >
      <legend className="visually-hidden">{props.label}</legend>
      {props.options.map((option) => (
        <label key={option.value} className={option.value === props.value ? "on" : ""} title={option.hint}>
          <input
            type="radio"
            name={props.name}
            value={option.value}
            checked={option.value === props.value}
            disabled={option.disabled}
            onChange={() => props.onChange(option.value)}
          />
          <span>{option.label}</span>
        </label>
      ))}
    </fieldset>
  );
}

export function Page(props: { title: string; intro?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>{props.title}</h1>
          {props.intro !== undefined && <p className="page-intro">{props.intro}</p>}
        </div>
        {props.actions !== undefined && <div className="page-actions">{props.actions}</div>}
      </header>
      {props.children}
    </div>
  );
}
