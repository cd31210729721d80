import { constants } from "node:fs";
import { z } from "zod";
import { PermanentError } from "../../core/errors.ts";
import { defineTool, type Tool } from "../define-tool.ts";
import { codeOf, findExisting, openInside, realRoot } from "./inside-root.ts";
import { parseOptions } from "./options.ts";

const optionsSchema = z.strictObject({
  root: z.string().min(1),
  maxBytes: z
    .int()
    .min(1)
    .max(1024 * 1024)
    .default(256 * 1024),
});

/** Options of `readFile`. `root`: the only folder it reads from; `maxBytes`: shown at once, default 256 KiB. */
export type ReadFileOptions = { root: string; maxBytes?: number };

/** Reads text files below one folder, links resolved. */
export function readFile(options: ReadFileOptions): Tool {
  const { root, maxBytes } = parseOptions("readFile", optionsSchema, options);
  return defineTool({
    name: "read_file",
    description: `Reads a text file and returns its text, at most ${maxBytes} bytes at once.
path: the file, relative to the working folder, with slashes. offset: the byte to start from, default 0, to read a long
file in parts. Format: path as text, offset as a whole number. Example: {"path":"notes/today.txt"}`,
    parameters: z.object({
      path: z.string().describe("Path of the file, e.g. notes/today.txt"),
      offset: z.int().min(0).default(0).describe("First byte to read, e.g. 0"),
    }),
    effect: "read",
    timeoutMs: 30_000,
    execute: ({ path, offset }) => read({ root, path, offset, maxBytes }),
  });
}

async function read(request: { root: string; path: string; offset: number; maxBytes: number }): Promise<string> {
  const { path, offset, maxBytes } = request;
  const root = await realRoot(request.root);
  const found = await findExisting(root, path);
  const { handle } = await openInside(root, found, constants.O_RDONLY).catch((error: unknown) => {
    throw error instanceof PermanentError ? error : new PermanentError(`not readable (${codeOf(error)})`);
  });
  try {
    const { size } = await handle.stat();
    if (offset > 0 && offset >= size) throw new PermanentError(`the file has only ${size} bytes`);
    const buffer = Buffer.alloc(Math.min(maxBytes, Math.max(size - offset, 0)));
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, offset);
    return toText(buffer.subarray(0, bytesRead), offset, size);
  } finally {
    await handle.close();
  }
}

function toText(bytes: Buffer, offset: number, size: number): string {
  if (bytes.includes(0)) return `[a binary file of ${size} bytes, not shown]`;
  const end = offset + bytes.length < size ? lastWhole(bytes) : bytes.length;
  const text = bytes.toString("utf8", 0, end);
  const next = offset + end;
  if (next >= size) return text;
  return `${text}\n[bytes ${offset} to ${next} of ${size} are shown; read on with offset ${next}]`;
}

/** Where the last whole UTF-8 character ends; at least one byte, so that reading on gets anywhere. */
function lastWhole(bytes: Buffer): number {
  const least = Math.max(bytes.length - 4, 0);
  for (let start = bytes.length - 1; start >= least; start--) {
    const byte = bytes[start] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return start + length <= bytes.length || start === 0 ? bytes.length : start;
  }
  return bytes.length;
}
