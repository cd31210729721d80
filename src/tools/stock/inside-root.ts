// Keeps the file tools inside their root: no absolute path, no "..", no link that leads out.

import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, readlink, realpath } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { PermanentError } from "../../core/errors.ts";

const maxPathLength = 1_024;

/** The root without links. Throws if it is no directory that is there. */
export async function realRoot(root: string): Promise<string> {
  try {
    return await realpath(resolve(root));
  } catch (error) {
    throw new PermanentError(`the folder of this tool cannot be used (${codeOf(error)})`);
  }
}

/** Whether a path without links is the root or below it. */
export function isInside(root: string, path: string): boolean {
  const way = relative(root, path);
  return way === "" || (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way));
}

/** The parts of a relative path that stays below the root by its spelling alone. */
export function partsOf(path: string): string[] {
  if (path.includes("\0") || path.trim() === "" || path.length > maxPathLength) {
    throw new PermanentError("this is no usable path; give one such as notes/today.txt");
  }
  if (isAbsolute(path) || /^[A-Za-z]:/.test(path) || path.startsWith("~")) {
    throw new PermanentError("the path is not relative; give one inside the folder, such as notes/today.txt");
  }
  const parts = relative("/", join("/", path)).split(sep);
  if (path.split(/[\\/]/).includes("..")) throw new PermanentError('the path holds ".."; give one inside the folder');
  if (parts.length === 1 && parts[0] === "") throw new PermanentError("the path names the folder itself, not a file");
  return parts;
}

function leadsOut(): PermanentError {
  return new PermanentError("the path leads out of the folder of this tool");
}

/** The error code of a failed file operation, without the paths its message would tell. */
export function codeOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "unknown error";
}

/** The real path of an existing file below the root. */
export async function findExisting(root: string, path: string): Promise<string> {
  const parts = partsOf(path);
  let real: string;
  try {
    real = await realpath(join(root, ...parts));
  } catch (error) {
    const code = codeOf(error);
    throw new PermanentError(code === "ENOENT" ? `there is no file ${JSON.stringify(path)}` : `not readable (${code})`);
  }
  if (!isInside(root, real)) throw leadsOut();
  return real;
}

/** The real path a new or replaced file would have. Makes the folders on the way, never through a link that leads out. */
export async function preparePlace(root: string, path: string): Promise<string> {
  const parts = partsOf(path);
  const name = parts.pop() ?? "";
  let folder = root;
  for (const part of parts) folder = await enterFolder(root, join(folder, part));
  const place = join(folder, name);
  const found = await lstat(place).catch(() => null);
  if (found?.isSymbolicLink()) {
    const real = await realpath(place).catch(() => null);
    if (real === null || !isInside(root, real)) throw leadsOut();
    return real;
  }
  if (found && !found.isFile()) throw new PermanentError(`${JSON.stringify(path)} is not a file`);
  return place;
}

async function enterFolder(root: string, folder: string): Promise<string> {
  try {
    await mkdir(folder);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw new PermanentError(`a folder cannot be made (${codeOf(error)})`);
  }
  const real = await realpath(folder).catch(() => null);
  if (real === null || !isInside(root, real)) throw leadsOut();
  return real;
}

/**
 * Opens a path that was found to be inside, and checks what was really opened: a folder on the way may have become a
 * link in between. Returns the handle with its real path.
 */
export async function openInside(
  root: string,
  path: string,
  flags: number,
): Promise<{ handle: FileHandle; real: string }> {
  // Without O_NONBLOCK a pipe would block the open for ever.
  const handle = await open(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, 0o666);
  try {
    const real = await pathOf(handle, path);
    if (!isInside(root, real)) throw leadsOut();
    if (!(await handle.stat()).isFile()) throw new PermanentError("this is not a file");
    return { handle, real };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Linux tells the path of what is open. Elsewhere the folder is looked at again, which leaves a narrow race. */
async function pathOf(handle: FileHandle, path: string): Promise<string> {
  try {
    return await readlink(`/proc/self/fd/${handle.fd}`);
  } catch {
    return join(await realpath(dirname(path)), path.slice(dirname(path).length));
  }
}
