const longestWaitMs = 30 * 24 * 3_600_000;
const unitsMs: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * How long a server asks to wait, in ms: `retry-after-ms`, or `retry-after` in seconds or as an HTTP date. Where it
 * limits rates and sends neither, what it says of the wait in its error, then when the used-up limit is reset.
 *
 * @param now epoch ms, to turn a date into a wait.
 */
export function readRetryAfter(
  headers: Headers,
  now: number,
  error: { status?: number | undefined; text: string } = { text: "" },
): number | undefined {
  const inMs = Number.parseFloat(headers.get("retry-after-ms") ?? "");
  if (inMs >= 0) return bounded(inMs);
  const header = headers.get("retry-after")?.trim();
  const waitMs = header ? (readSeconds(header) ?? Date.parse(header) - now) : Number.NaN;
  if (!Number.isNaN(waitMs)) return bounded(waitMs);
  if (error.status !== 429) return undefined;
  return readText(error.text) ?? readReset(headers, now);
}

function bounded(waitMs: number): number {
  return Math.min(Math.max(Math.ceil(waitMs), 0), longestWaitMs);
}

function readSeconds(text: string): number | undefined {
  return /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1_000 : undefined;
}

/** `1m30.5s`, `250ms`; undefined if the text is something else. */
function readDuration(text: string): number | undefined {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$/.test(text)) return undefined;
  let sum = 0;
  for (const [, count, unit = ""] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhd])/g))
    sum += Number(count) * (unitsMs[unit] ?? 0);
  return sum;
}

/** "Please try again in 1.5s", `"retryDelay": "3s"`. */
function readText(text: string): number | undefined {
  const told =
    /(?:try again|retry) (?:in|after) ((?:\d+(?:\.\d+)?) ?(?:ms|[smh])?[\d.smh]*)|"retryDelay"\s*:\s*"([\d.smh]+)"/i.exec(
      text,
    );
  const wait = (told?.[1] ?? told?.[2] ?? "").replace(" ", "").replace(/\.$/, "");
  const waitMs = readDuration(wait) ?? readSeconds(wait);
  return waitMs === undefined ? undefined : bounded(waitMs);
}

/** The latest reset of the limits that are used up; of the one limit there is if it does not say how much is left. */
function readReset(headers: Headers, now: number): number | undefined {
  const waits: number[] = [];
  for (const [name, value] of headers) {
    const limit = /^(?:x-)?ratelimit-reset(-\w+)?$/.exec(name);
    if (!limit) continue;
    const left = headers.get(name.replace("reset", "remaining"));
    if (left !== null && Number(left) > 0) continue;
    const waitMs = readDuration(value.trim()) ?? readMoment(value.trim(), now);
    if (waitMs !== undefined) waits.push(bounded(waitMs));
  }
  return waits.length === 0 ? undefined : Math.max(...waits);
}

/** Seconds to wait, or a moment in epoch seconds or ms: which of them it is shows in its size. */
function readMoment(value: string, now: number): number | undefined {
  const seconds = readSeconds(value);
  if (seconds === undefined) {
    const moment = Date.parse(value);
    return Number.isNaN(moment) ? undefined : moment - now;
  }
  if (seconds < 1e12) return seconds;
  return (seconds < 1e15 ? seconds : seconds / 1_000) - now;
}
