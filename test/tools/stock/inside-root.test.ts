import { constants } from "node:fs";
import { mkdir, mkdtemp, realpath, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { isInside, openInside, partsOf } from "../../../src/tools/stock/inside-root.ts";

let base: string;
beforeEach(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), "drover-root-")));
});
afterEach(() => rm(base, { recursive: true, force: true }));

test("a folder that became a link after it was checked does not lead out", async () => {
  const root = join(base, "root");
  await mkdir(join(root, "sub"), { recursive: true });
  await mkdir(join(base, "outside"));
  await writeFile(join(base, "outside", "f"), "s3cret");
  // The check found root/sub/f inside; then somebody swapped the folder.
  await rename(join(root, "sub"), join(root, "old"));
  await symlink(join(base, "outside"), join(root, "sub"));
  await expect(openInside(root, join(root, "sub", "f"), constants.O_RDONLY)).rejects.toThrow("leads out");
});

test.each([
  ["/r", true],
  ["/r/a", true],
  ["/r/..a", true],
  ["/rr", false],
  ["/", false],
  ["/r/../x", false],
])("inside /r: %s is %s", (path, expected) => {
  expect(isInside("/r", path)).toBe(expected);
});

test("a path that is accepted stays inside by its spelling", () => {
  const piece = fc.constantFrom("a", "..", ".", "", "/", "\\", "~", "\0", "C:", "b c", "...", "\n");
  const path = fc.oneof(
    fc.string(),
    fc.array(piece, { maxLength: 8 }).map((parts) => parts.join("/")),
  );
  fc.assert(
    fc.property(path, (text) => {
      let parts: string[];
      try {
        parts = partsOf(text);
      } catch {
        return;
      }
      expect(isInside("/r", join("/r", ...parts))).toBe(true);
      expect(join("/r", ...parts)).not.toBe("/r");
    }),
  );
});
