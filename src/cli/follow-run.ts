import { setTimeout as sleep } from "node:timers/promises";
import type { RunFeedEvent } from "../core/feed.ts";
import { createFeedRedactor } from "../core/redact-feed.ts";
import type { RunHandle } from "../engine/run-handle.ts";
import type { Context } from "./context.ts";
import { toCode } from "./errors.ts";
import { printDescribed } from "./format/dry-run.ts";
import { toEventLine } from "./format/event.ts";
import { toDecisions } from "./format/run.ts";
import { toPrintable } from "./format/text.ts";
import type { Output } from "./output.ts";
import { listenForStop } from "./signals.ts";

const lookAgainMs = 500;

/**
 * Prints a run's events until it ends: lines and live text for people, one JSON object a line for programs. An outage
 * of Redis after the first event is waited out, and nothing is printed twice.
 *
 * @returns the exit code: 0 when the run completed, 130 when the user stopped watching.
 */
export async function followRun(context: Context, run: RunHandle, options: { json?: boolean }): Promise<number> {
  const printer = options.json ? createJsonPrinter(context.output) : createPrinter(context, run.id);
  const stop = listenForStop();
  try {
    const ended = await printAll(context, run, printer, stop.signal);
    if (ended && !options.json) await printDescribed(context, run);
    if (!ended) context.output.note(`stopped watching; the run goes on (${context.program} watch ${run.id})`);
    return ended ? toExitCode(ended) : 130;
  } finally {
    stop.release();
  }
}

type Printer = { print(event: RunFeedEvent): void };

/** The event that ended the run; undefined when watching was stopped. */
async function printAll(
  context: Context,
  run: RunHandle,
  printer: Printer,
  signal: AbortSignal,
): Promise<RunFeedEvent | undefined> {
  let last: RunFeedEvent | undefined;
  let end: RunFeedEvent | undefined;
  let away = false;
  const redact = createFeedRedactor(context.redactor());
  while (!signal.aborted) {
    try {
      for await (const event of run.events({ after: last?.id, signal })) {
        away = false;
        for (const shown of redact(event)) printer.print(shown);
        last = event;
        if (event.type === "run_ended" || event.type === "run_rejected") end = event;
      }
      return end;
    } catch (error) {
      if (last === undefined || toCode(error) !== "queue_unavailable") throw error;
      if (!away) context.output.note("Redis is away; waiting for it");
      away = true;
      await sleep(lookAgainMs, undefined, { signal }).catch(() => {});
    }
  }
  return end;
}

function toExitCode(end: RunFeedEvent): number {
  return end.type === "run_ended" && end.status === "completed" ? 0 : 1;
}

function createJsonPrinter(output: Output): Printer {
  return { print: (event) => output.json(event) };
}

function createPrinter({ output, program }: Context, runId: string): Printer {
  let inText = false;
  const endText = (): void => {
    if (inText) output.line();
    inText = false;
  };
  return {
    print(event) {
      if (event.type === "text") {
        output.write(toPrintable(event.text));
        inText = true;
        return;
      }
      endText();
      if (event.type === "text_superseded") {
        output.line(output.mark("dim", "(the text above is void: its attempt did not finish)"));
        return;
      }
      const line = toEventLine(event, output.mark);
      if (line !== undefined) output.line(line);
      if (event.type === "approval_asked") {
        for (const command of toDecisions(program, runId, event)) output.line(`    ${command}`);
      }
    },
  };
}
