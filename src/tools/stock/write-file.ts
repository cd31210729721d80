import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { PermanentError } from "../../core/errors.ts";
import { defineTool, type Tool } from "../define-tool.ts";
import { codeOf, openInside, preparePlace, realRoot } from "./inside-root.ts";
import { parseOptions } from "./options.ts";

const optionsSchema = z.strictObject({
  root: z.string().min(1),
  maxBytes: z
    .int()
    .min(1)
    .max(64 * 1024 * 1024)
    .default(1024 * 1024),
});

/** Options of `writeFile`. `root`: the only folder it writes to; `maxBytes`: of one file, default 1 MiB. */
export type WriteFileOptions = { root: string; maxBytes?: number };

/**
 * Writes text files below one folder, links resolved. A file is there whole or not at all (written beside its place,
 * synced, renamed), so writing it again after a lost worker is the same as writing it once.
 */
export function writeFile(options: WriteFileOptions): Tool {
  const { root, maxBytes } = parseOptions("writeFile", optionsSchema, options);
  return defineTool({
    name: "write_file",
    description: `Writes a text file, replacing it if it exists; folders on the way are made.
path: the file, relative to the working folder, with slashes. content: the whole new text, at most ${maxBytes} bytes.
Format: both as text. Example: {"path":"notes/today.txt","content":"Buy milk.\\n"}`,
    parameters: z.object({
      path: z.string().describe("Path of the file, e.g. notes/today.txt"),
      content: z.string().describe("The whole text of the file"),
    }),
    effect: "write",
    idempotent: true,
    timeoutMs: 30_000,
    execute: ({ path, content }) => write({ root, path, content, maxBytes }),
  });
}

async function write(request: { root: string; path: string; content: string; maxBytes: number }): Promise<string> {
  const { path, content, maxBytes } = request;
  const size = Buffer.byteLength(content);
  if (size > maxBytes) throw new PermanentError(`the content has ${size} bytes, at most ${maxBytes} are allowed`);
  const root = await realRoot(request.root);
  const place = await preparePlace(root, path);
  try {
    await replace(root, place, content);
  } catch (error) {
    throw error instanceof PermanentError ? error : new PermanentError(`the file was not written (${codeOf(error)})`);
  }
  return `Wrote ${size} bytes to ${path}.`;
}

async function replace(root: string, place: string, content: string): Promise<void> {
  const before = await stat(place).catch(() => null);
  const beside = join(dirname(place), `.drover-${randomUUID()}.tmp`);
  const { handle, real } = await openInside(root, beside, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL);
  try {
    try {
      if (before) await handle.chmod(before.mode & 0o777);
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    // By the path of what was opened, not of what was asked for: they are the same unless somebody interferes.
    await rename(real, join(dirname(real), basename(place)));
  } catch (error) {
    await unlink(real).catch(() => undefined);
    throw error;
  }
}
