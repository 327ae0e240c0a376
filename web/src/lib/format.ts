/** Numbers and dates as people read them. What there is no value for is a dash, never a zero. */

export const NONE = "–";

type Maybe = number | null | undefined;

function known(value: Maybe): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

/** As many digits as are worth reading: about three. */
export function number(value: Maybe): string {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 0.095 ? 2 : 3;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function rate(value: Maybe): string {
  return known(value) ? number(value) : NONE;
}

export function percent(value: Maybe): string {
  if (!known(value)) return NONE;
  return `${value.toFixed(value >= 99.95 || value < 0.05 ? 0 : 1)} %`;
}

export function milliseconds(value: Maybe): string {
  return known(value) ? `${number(value)} ms` : NONE;
}

/** From MiB; GiB from 10 GiB on, so that sizes of one kind stay comparable. */
export function mebibytes(value: Maybe): string {
  if (!known(value)) return NONE;
  if (value >= 10 * 1024) return `${(value / 1024).toFixed(1)} GiB`;
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return `${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} MiB`;
}

export function bytes(value: Maybe): string {
  if (!known(value)) return NONE;
  if (value < 1024) return `${value} B`;
  if (value < 1024 ** 2) return `${(value / 1024).toFixed(0)} KiB`;
  return mebibytes(value / 1024 ** 2);
}

export function count(value: Maybe): string {
  return known(value) ? value.toLocaleString("en", { maximumFractionDigits: 0 }) : NONE;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function seconds(value: Maybe): string {
  if (!known(value)) return NONE;
  if (value < 1) return `${(value * 1000).toFixed(0)} ms`;
  if (value < 90) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const minutes = Math.round(value / 60);
  return minutes < 90 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`;
}

/** "Just now", "5 min ago", "14:05", "Tue 14:05", "3 Mar", "3 Mar 2024". */
export function when(value: string | number | null | undefined, now: Date = new Date()): string {
  if (value === null || value === undefined) return NONE;
  const date = new Date(typeof value === "number" ? value * 1000 : value);
  if (Number.isNaN(date.getTime())) return NONE;
  const age = (now.getTime() - date.getTime()) / 1000;
  if (age >= 0 && age < 60) return "just now";
  if (age >= 0 && age < 3600) return `${Math.floor(age / 60)} min ago`;
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === now.toDateString()) return time;
  if (age >= 0 && age < 6 * 86400) {
    return `${date.toLocaleDateString("en-GB", { weekday: "short" })} ${time}`;
  }
  const sameYear = date.getFullYear() === now.getFullYear();
  return date.toLocaleDateString("en-GB", {
    day: "numeric",
    month: "short",
    ...(sameYear ? {} : { year: "numeric" }),
  });
}

/** Anything that a table may hold. */
export function cell(value: unknown): string {
  if (value === null || value === undefined || value === "") return NONE;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") {
    if (Number.isInteger(value)) return Math.abs(value) >= 1e5 ? count(value) : String(value);
    return number(value);
  }
  if (Array.isArray(value)) return value.map(cell).join(", ");
  return String(value);
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
