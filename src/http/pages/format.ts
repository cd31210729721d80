// How numbers and times are written on the pages. Pure.

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** A length of time in its two largest units: `340 ms`, `3.2 s`, `2 min 05 s`, `1 h 12 min`, `3 d 4 h`. */
export function formatDuration(ms: number): string {
  const whole = Math.max(0, Math.round(ms));
  if (whole < second) return `${whole} ms`;
  if (whole < 10 * second) return `${(Math.floor(whole / 100) / 10).toFixed(1)} s`;
  if (whole < minute) return `${Math.floor(whole / second)} s`;
  if (whole < hour) return pair(whole, [minute, "min"], [second, "s"]);
  if (whole < day) return pair(whole, [hour, "h"], [minute, "min"]);
  return pair(whole, [day, "d"], [hour, "h"]);
}

type Unit = [ms: number, name: string];

function pair(ms: number, [large, largeName]: Unit, [small, smallName]: Unit): string {
  const rest = String(Math.floor((ms % large) / small)).padStart(2, "0");
  return `${Math.floor(ms / large)} ${largeName} ${rest} ${smallName}`;
}

/** How long ago, in one unit: `now`, `12 s`, `3 min`, `2 h`, `5 d`. */
export function formatAge(ms: number): string {
  if (ms < second) return "now";
  if (ms < minute) return `${Math.floor(ms / second)} s`;
  if (ms < hour) return `${Math.floor(ms / minute)} min`;
  if (ms < 2 * day) return `${Math.floor(ms / hour)} h`;
  return `${Math.floor(ms / day)} d`;
}

/** `2026-11-30 08:51:38 UTC` */
export function formatTime(at: number): string {
  return `${toIso(at).slice(0, 19).replace("T", " ")} UTC`;
}

export function toIso(at: number): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? new Date(0).toISOString() : date.toISOString();
}

/** With commas: `1,234,567`. */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** In four characters or so: `950`, `1.2k`, `48k`, `1.3M`. */
export function formatShort(count: number): string {
  if (count < 1_000) return String(count);
  const [divisor, unit] = count < 999_500 ? [1_000, "k"] : [1_000_000, "M"];
  const scaled = count / divisor;
  return `${scaled < 9.95 ? scaled.toFixed(1) : String(Math.round(scaled))}${unit}`;
}

/** `$0.0123`; from a dollar on with cents. */
export function formatCost(usd: number): string {
  return `$${usd < 1 ? usd.toFixed(4) : usd.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

export function formatBytes(bytes: number): string {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let scaled = bytes;
  let unit = 0;
  for (; scaled >= 1_000 && unit < units.length - 1; unit += 1) scaled /= 1_000;
  return `${unit === 0 || scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1)} ${units[unit]}`;
}

/** "one run", "3 runs" */
export function formatNumber(count: number, one: string, many: string = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}
