import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { sendRaw, toRequestText } from "../raw-http.ts";
import type { Document } from "./openapi-rows.ts";
import { countSent, playRows, type Row } from "./rows.ts";
import { openSite, type Site } from "./site.ts";

export type Attack = {
  /** Filled in before the first test. */
  site: Site;
  document: Document;
  /** Parameters of an address, for a run of the site. */
  values(run: string): Record<string, string>;
  expectRows(rows: readonly Row[]): Promise<void>;
};

/**
 * A server for all tests of a file. After each of them what is kept is as it was, and the server well; at the end its
 * memory is bounded, and it has met nothing that it took for a fault of its own.
 */
export function useAttack(): Attack {
  const attack = {} as Attack;
  attack.values = (runId) => ({ runId, callId: attack.site.callId, session: "s-1" });
  attack.expectRows = async (rows) => expect(await playRows(attack.site.port, rows)).toEqual([]);
  let before: Map<string, string>;

  beforeAll(async () => {
    attack.site = await openSite({ keys: true });
    const { auth, port } = attack.site;
    const { body } = await sendRaw(toRequestText({ path: "/openapi.json", headers: [auth.admin] }), { port });
    attack.document = JSON.parse(body.slice(body.indexOf("{"), body.lastIndexOf("}") + 1)) as Document;
  });
  beforeEach(async () => {
    before = await attack.site.snapshot();
  });
  afterEach(async () => {
    const { site } = attack;
    const after = await site.snapshot();
    const names = new Set([...before.keys(), ...after.keys()]);
    expect([...names].filter((name) => before.get(name) !== after.get(name))).toEqual([]);
    expect((await sendRaw(toRequestText({ path: "/readyz" }), { port: site.port })).status).toBe(200);
    expect(site.process.child.exitCode).toBeNull();
  });
  afterAll(async () => {
    const { site } = attack;
    if (!site) return;
    const stderr = site.process.stderr();
    const memoryMb = site.memoryMb();
    await site.stop();
    expect(stderr.split("\n").filter((line) => /"level":"error"|"status":500/.test(line))).toEqual([]);
    expect(stderr).not.toMatch(/drv_[A-Za-z0-9-]+_[A-Za-z0-9_-]{20}/);
    expect(memoryMb).toBeLessThan(600);
    expect(countSent()).toBeGreaterThan(200);
  });
  return attack;
}
