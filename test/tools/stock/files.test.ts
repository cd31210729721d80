import { execFileSync } from "node:child_process";
import {
  chmod,
  mkdir,
  mkdtemp,
  readFile as read,
  readdir,
  rm,
  stat,
  symlink,
  writeFile as write,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DroverError } from "../../../src/core/errors.ts";
import type { Tool } from "../../../src/tools/define-tool.ts";
import { readFile } from "../../../src/tools/stock/read-file.ts";
import { writeFile } from "../../../src/tools/stock/write-file.ts";
import { callTool, textFrom } from "../request.ts";

let base: string;
let root: string;
let reader: Tool;
let writer: Tool;

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "drover-files-"));
  root = join(base, "root");
  await mkdir(join(root, "sub"), { recursive: true });
  await mkdir(join(base, "root-twin"));
  await write(join(root, "a.txt"), "hello");
  await write(join(base, "secret.txt"), "s3cret");
  await write(join(base, "root-twin", "secret.txt"), "s3cret");
  await symlink(join(base, "secret.txt"), join(root, "link-out"));
  await symlink(base, join(root, "dir-out"));
  await symlink(join(base, "root-twin"), join(root, "twin"));
  await symlink("a.txt", join(root, "link-in"));
  await symlink(join(base, "not-there"), join(root, "dangling"));
  await symlink("loop", join(root, "loop"));
  await symlink("/proc/self/root", join(root, "proc"));
  execFileSync("sh", ["-c", 'mkfifo "$0"', join(root, "pipe")]);
  reader = readFile({ root, maxBytes: 20 });
  writer = writeFile({ root, maxBytes: 20 });
});
afterEach(() => rm(base, { recursive: true, force: true }));

const attacks = [
  ["a parent", "../secret.txt"],
  ["a parent further in", "sub/../../secret.txt"],
  ["a parent that comes back", "sub/../a.txt"],
  ["a parent with backslashes", "..\\secret.txt"],
  ["only a parent", ".."],
  ["an absolute path", "/etc/passwd"],
  ["a home", "~/secret.txt"],
  ["a drive", "C:/secret.txt"],
  ["a NUL", "a.txt\0.png"],
  ["nothing", ""],
  ["space", "  "],
  ["the root", "."],
  ["the root, spelled longer", "./"],
  ["a link out", "link-out"],
  ["a folder linked out", "dir-out/secret.txt"],
  ["a folder whose name begins like the root", "twin/secret.txt"],
  ["a link into /proc", `proc/etc/passwd`],
  ["a link to nothing outside", "dangling"],
  ["a circular link", "loop"],
  ["a folder", "sub"],
  ["a pipe", "pipe"],
  ["a path without end", "a/".repeat(2_000)],
] as const;

describe("read_file", () => {
  test("reads text, through links that stay inside", async () => {
    expect(await textFrom(reader, { path: "a.txt" })).toBe("hello");
    expect(await textFrom(reader, { path: ".//./a.txt" })).toBe("hello");
    expect(await textFrom(reader, { path: "link-in" })).toBe("hello");
  });

  test.each(attacks)("refuses %s", async (_name, path) => {
    const outcome = await callTool(reader, { path });
    expect(outcome).toMatchObject({ type: "failed", code: "threw" });
    expect(JSON.stringify(outcome)).not.toContain("s3cret");
    expect(JSON.stringify(outcome)).not.toContain(base);
  });

  test("a file that is not there", async () => {
    const message = expect.stringContaining('there is no file "gone.txt"');
    expect(await callTool(reader, { path: "gone.txt" })).toMatchObject({ type: "failed", message });
  });

  test("a long file is read in parts, without cutting a character", async () => {
    const text = "äöü€😀".repeat(10);
    await write(join(root, "long.txt"), text);
    let whole = "";
    for (let offset = 0; ; ) {
      const part = await textFrom(reader, { path: "long.txt", offset });
      const [, shown = part, next] =
        /^(.*)\n\[bytes \d+ to \d+ of \d+ are shown; read on with offset (\d+)\]$/s.exec(part) ?? [];
      whole += shown;
      if (next === undefined) break;
      offset = Number(next);
    }
    expect(whole).toBe(text);
    expect(await callTool(reader, { path: "long.txt", offset: 9_999 })).toMatchObject({ type: "failed" });
  });

  test("an empty and a binary file", async () => {
    await write(join(root, "empty"), "");
    await write(join(root, "binary"), Buffer.from([1, 0, 2]));
    expect(await textFrom(reader, { path: "empty" })).toBe("");
    expect(await textFrom(reader, { path: "binary" })).toBe("[a binary file of 3 bytes, not shown]");
  });

  test("a root that is not there is said, without its path", async () => {
    const outcome = await callTool(readFile({ root: join(base, "gone") }), { path: "a.txt" });
    expect(outcome).toMatchObject({ type: "failed", message: expect.stringContaining("ENOENT") });
    expect(JSON.stringify(outcome)).not.toContain(base);
  });
});

describe("write_file", () => {
  test("writes, makes folders, replaces, and leaves nothing beside", async () => {
    expect(await textFrom(writer, { path: "x/y/new.txt", content: "one" })).toBe("Wrote 3 bytes to x/y/new.txt.");
    await textFrom(writer, { path: "x/y/new.txt", content: "two" });
    await textFrom(writer, { path: "x/y/new.txt", content: "two" });
    expect(await read(join(root, "x/y/new.txt"), "utf8")).toBe("two");
    expect(await readdir(join(root, "x/y"))).toEqual(["new.txt"]);
  });

  test("through a link that stays inside, the file itself is written", async () => {
    await textFrom(writer, { path: "link-in", content: "changed" });
    expect(await read(join(root, "a.txt"), "utf8")).toBe("changed");
  });

  test("keeps the mode of a file it replaces", async () => {
    await chmod(join(root, "a.txt"), 0o640);
    await textFrom(writer, { path: "a.txt", content: "x" });
    expect((await stat(join(root, "a.txt"))).mode & 0o777).toBe(0o640);
  });

  test.each(attacks)("refuses %s", async (_name, path) => {
    const outsideBefore = await readdir(base);
    expect(await callTool(writer, { path, content: "evil" })).toMatchObject({ type: "failed", code: "threw" });
    expect(await readdir(base)).toEqual(outsideBefore);
    expect(await read(join(base, "secret.txt"), "utf8")).toBe("s3cret");
    expect(await read(join(base, "root-twin", "secret.txt"), "utf8")).toBe("s3cret");
    expect((await readdir(root)).filter((name) => name.includes(".drover-"))).toEqual([]);
  });

  test("refuses what is too long, counted in bytes", async () => {
    const outcome = await callTool(writer, { path: "b.txt", content: "€".repeat(7) });
    expect(outcome).toMatchObject({ type: "failed", message: expect.stringContaining("21 bytes, at most 20") });
    await expect(stat(join(root, "b.txt"))).rejects.toThrow("ENOENT");
  });

  test("a file in the way of a folder is said, without the path", async () => {
    const outcome = await callTool(writer, { path: "a.txt/b.txt", content: "x" });
    expect(outcome).toMatchObject({ type: "failed" });
    expect(JSON.stringify(outcome)).not.toContain(base);
  });

  test("readers never see half a file", async () => {
    const big = writeFile({ root });
    const texts = ["a".repeat(500_000), "b".repeat(500_000)];
    await textFrom(big, { path: "swap.txt", content: texts[0] });
    const writes = Promise.all(
      Array.from({ length: 20 }, (_, n) => textFrom(big, { path: "swap.txt", content: texts[n % 2] })),
    );
    let done = false;
    void writes.then(() => {
      done = true;
    });
    while (!done) expect(texts).toContain(await read(join(root, "swap.txt"), "utf8"));
    await writes;
  });
});

test("options are checked", () => {
  expect(() => readFile({ root: "", maxBytes: 0 })).toThrow(DroverError);
  expect(() => writeFile({ root: "x", maxbytes: 5 } as never)).toThrow(/writeFile.*maxbytes/);
});
