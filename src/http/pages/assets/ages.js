// @ts-check
// How ages and durations are written; the server writes them alike (format.ts), and a test holds both to it.

/** @param {number} ms */
function toAge(ms) {
  if (ms < 1000) return "now";
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.floor(ms / 3_600_000)} h`;
  return `${Math.floor(ms / 86_400_000)} d`;
}

/** @param {number} n */
const two = (n) => String(Math.floor(n)).padStart(2, "0");

/** @param {number} ms */
function toDuration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${two((ms % 60_000) / 1000)} s`;
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h ${two((ms % 3_600_000) / 60_000)} min`;
  return `${Math.floor(ms / 86_400_000)} d ${two((ms % 86_400_000) / 3_600_000)} h`;
}

/** @type {Record<string, (at: number, now: number) => string>} */
export const forms = {
  "": (at, now) => toAge(now - at),
  ago: (at, now) => (now - at < 1000 ? "just now" : `${toAge(now - at)} ago`),
  due: (at, now) => (at > now ? `in ${toAge(at - now)}` : "due"),
  took: (at, now) => toDuration(now - at),
};
