import { mkdtemp, readdir, readFile, rm, writeFile as write } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { writeFile } from "../../../src/tools/stock/write-file.ts";
import { callTool } from "../request.ts";

vi.mock("node:fs/promises", async (importOriginal) => ({
  ...(await importOriginal<typeof import("node:fs/promises")>()),
  rename: () => Promise.reject(Object.assign(new Error("no space left: /secret/place"), { code: "ENOSPC" })),
}));

test("a write that fails at its last step changes nothing and leaves nothing beside", async () => {
  const root = await mkdtemp(join(tmpdir(), "drover-write-"));
  try {
    await write(join(root, "a.txt"), "old");
    const outcome = await callTool(writeFile({ root }), { path: "a.txt", content: "new" });
    expect(outcome).toMatchObject({ type: "failed", message: expect.stringContaining("was not written (ENOSPC)") });
    expect(JSON.stringify(outcome)).not.toContain("/secret/place");
    expect(await readFile(join(root, "a.txt"), "utf8")).toBe("old");
    expect(await readdir(root)).toEqual(["a.txt"]);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});
