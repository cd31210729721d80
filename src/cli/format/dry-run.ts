import { describedCalls } from "../../core/described.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import type { Context } from "../context.ts";
import { toOneLine } from "./text.ts";

/** Prints what a dry run has described so far instead of doing it, as a table. Nothing for another run. */
export async function printDescribed({ output }: Context, run: RunHandle): Promise<void> {
  const { dryRun } = await run.status();
  if (!dryRun) return;
  const described = describedCalls(await run.transcript());
  output.line();
  if (described.length === 0) {
    output.line("dry run: nothing but reads was asked for");
    return;
  }
  output.line("dry run: not executed, only described");
  const rows = described.map(({ callId, tool, text, arguments: args }) => [
    callId,
    toOneLine(tool, 64),
    toOneLine(args, 100),
    toOneLine(text, 200),
  ]);
  output.table(["call", "tool", "arguments", "would have"], rows);
}
