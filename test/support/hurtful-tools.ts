import { setTimeout as sleep } from "node:timers/promises";
import type { Tool, ToolContext } from "../../src/tools/define-tool.ts";
import type { Ledger } from "./ledger.ts";

type Given = { takeMs?: number | undefined; bytes?: number | undefined };
type Execute = (args: Given, context: ToolContext) => Promise<unknown>;
type Make = (behaviour: { name: string; effect: "read" | "write" }, execute: Execute) => Tool;

const tickMs = 200;

/**
 * Tools that do to their worker what bad ones do:
 * - `tick` and, which may not be repeated, `tock`: go on for `takeMs` and note it five times a second, until aborted;
 * - `parse`: reads JSON of `bytes` in one go;
 * - `hog`: takes memory until its process dies.
 */
export function hurtfulTools(tool: Make, ledger: Ledger): Tool[] {
  const note = (name: string, { runId, callId, attempt, idempotencyKey: key }: ToolContext): void =>
    ledger.begin({ tool: name, runId, callId, key, attempt });
  const ticking = (name: string, effect: "read" | "write"): Tool =>
    tool({ name, effect }, async ({ takeMs = 0 }, context) => {
      for (let at = 0; at < takeMs; at += tickMs) {
        // That it has begun is noted for it.
        if (at > 0) note(name, context);
        await sleep(tickMs, undefined, { signal: context.signal });
      }
      return "ticked";
    });
  return [
    ticking("tick", "read"),
    ticking("tock", "write"),
    tool({ name: "parse", effect: "read" }, async ({ bytes = 0 }) => {
      const text = JSON.stringify(Array.from({ length: Math.ceil(bytes / 20) }, (_, index) => `item ${index} of many`));
      return `${(JSON.parse(text) as unknown[]).length} items`;
    }),
    tool({ name: "hog", effect: "read" }, async () => {
      const kept: unknown[] = [];
      // Few and large ones: the collector is soon done with them, and the process with itself.
      for (;;) kept.push(Array.from({ length: 2_000_000 }, (_, index) => index + 0.5));
    }),
  ];
}
