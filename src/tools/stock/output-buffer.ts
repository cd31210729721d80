import { cleanText } from "../messages.ts";

/** Collects output of any length in bounded memory: its beginning and its end. */
export type OutputBuffer = { add: (chunk: Buffer) => void; text: () => string };

/** Keeps at most `maxBytes`, half of it from the beginning and half from the end. */
export function createOutputBuffer(maxBytes: number): OutputBuffer {
  const half = Math.floor(maxBytes / 2);
  let head: Buffer = Buffer.alloc(0);
  let tail: Buffer = Buffer.alloc(0);
  let total = 0;
  return {
    add: (chunk) => {
      total += chunk.length;
      const room = half - head.length;
      if (room > 0) head = Buffer.concat([head, chunk.subarray(0, room)]);
      const rest = room > 0 ? chunk.subarray(room) : chunk;
      if (rest.length === 0) return;
      const joined = rest.length >= half ? rest : Buffer.concat([tail, rest]);
      // Copied: a slice would keep the whole chunk in memory.
      tail = Buffer.from(joined.subarray(-half));
    },
    text: () => {
      const left = total - head.length - tail.length;
      if (left <= 0) return toText(Buffer.concat([head, tail]));
      return `${toText(head)}\n[cut: ${left} bytes left out]\n${toText(tail)}`;
    },
  };
}

function toText(bytes: Buffer): string {
  return cleanText(bytes.toString("utf8"));
}
