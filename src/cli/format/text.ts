// Small pure helpers that turn values into words for people.

/** A duration in the largest unit that fits: `850 ms`, `3.2 s`, `4 min`, `2 h`, `3 d`. */
export function toDuration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h`;
  return `${Math.floor(ms / 86_400_000)} d`;
}

/** A number of bytes: `512 B`, `1.5 MiB`. */
export function toBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** One line of at most `max` characters; control characters cannot reach the terminal. */
export function toOneLine(text: string, max: number): string {
  const line = toPrintable(text).replaceAll(/\s+/g, " ").trim();
  const characters = Array.from(line);
  return characters.length <= max ? line : `${characters.slice(0, max - 1).join("")}…`;
}

/**
 * Text as it is, without the control characters by which content could drive somebody's terminal, or show it in another
 * order than it has: people decide by what they see.
 */
export function toPrintable(text: string): string {
  // Tab and line feed stay; the other controls (C0, DEL, C1) go, and what made escape sequences of them.
  return text.replaceAll(/[^\P{Cc}\n\t]|\p{Bidi_Control}/gu, "");
}

/** Each line moved to the right. */
export function indent(text: string, by: string): string {
  return text
    .split("\n")
    .map((line) => (line === "" ? "" : by + line))
    .join("\n");
}

/** `1 call`, `2 calls`; `many` where the plural is not made by an s. */
export function count(number: number, one: string, many: string = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
