import { setTimeout as sleep } from "node:timers/promises";
import type { RunFeedEvent } from "../core/feed.ts";
import { createFeedRedactor } from "../core/redact-feed.ts";
import type { RunHandle } from "../engine/run-handle.ts";
import type { Context } from "./context.ts";
import { toCode } from "./errors.ts";
import { printDescribed } from "./format/dry-run.ts";
import { toEventLine } from "./format/event.ts";
import { createLiveView, toVoidLine } from "./format/live.ts";
import { toAnswers, toDecisions } from "./format/run.ts";
import { toPrintable } from "./format/text.ts";
import type { LiveArea, Output } from "./output.ts";
import { listenForStop } from "./signals.ts";

const lookAgainMs = 500;

/**
 * Prints a run's events until it ends: lines and live text for people, on a terminal with a line below that tells how far
 * it is; one JSON object a line for programs. An outage of Redis after the first event is waited out, and nothing is
 * printed twice.
 *
 * @returns the exit code: 0 when the run completed, 130 when the user stopped watching.
 */
export async function followRun(context: Context, run: RunHandle, options: { json?: boolean }): Promise<number> {
  const stop = listenForStop();
  const printer = options.json ? createJsonPrinter(context.output) : await createPrinter(context, run.id);
  try {
    const ended = await printAll(context, run, printer, stop.signal).finally(() => printer.end());
    if (ended && !options.json) await printDescribed(context, run);
    if (!ended) {
      const { program } = context;
      context.output.note(
        `stopped watching; the run goes on (${program} watch ${run.id}; to end it: ${program} cancel ${run.id})`,
      );
    }
    return ended ? toExitCode(ended) : 130;
  } finally {
    stop.release();
  }
}

type Printer = { print(event: RunFeedEvent): void; note(text: string): void; end(): void };

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
      if (!away) printer.note("Redis is away; waiting for it");
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
  return { print: (event) => output.json(event), note: output.note, end: () => {} };
}

async function createPrinter(context: Context, runId: string): Promise<Printer> {
  const more = (event: RunFeedEvent): string[] => toCommands(context.program, runId, event);
  const area = await context.output.live();
  return area ? createLivePrinter(context.output, area, more) : createPlainPrinter(context.output, more);
}

/** The commands that settle what the event says that the run waits for. */
function toCommands(program: string, runId: string, event: RunFeedEvent): string[] {
  const commands =
    event.type === "approval_asked"
      ? toDecisions(program, runId, event)
      : event.type === "answer_asked"
        ? toAnswers(program, runId, event)
        : [];
  return commands.map((command) => `    ${command}`);
}

type More = (event: RunFeedEvent) => string[];

function createPlainPrinter(output: Output, more: More): Printer {
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
      const line = event.type === "text_superseded" ? toVoidLine(output.mark) : toEventLine(event, output.mark);
      if (line !== undefined) output.line(line);
      for (const command of more(event)) output.line(command);
    },
    note: output.note,
    end: endText,
  };
}

/** What comes within this time is drawn at once. */
const drawAfterMs = 40;
const clockMs = 1_000;

function createLivePrinter({ mark }: Output, area: LiveArea, more: More): Printer {
  const view = createLiveView(mark, more);
  let lines: string[] = [];
  let timer: NodeJS.Timeout | undefined;
  let isDue = false;
  const draw = (): void => {
    clearTimeout(timer);
    isDue = false;
    const drawn = lines;
    lines = [];
    area.draw(drawn, view.block(area.size(), Date.now()));
    timer = setTimeout(draw, clockMs);
  };
  const soon = (): void => {
    if (isDue) return;
    isDue = true;
    clearTimeout(timer);
    timer = setTimeout(draw, drawAfterMs);
  };
  area.onResize(draw);
  return {
    print(event) {
      lines.push(...view.push(event, area.size()));
      soon();
    },
    note(text) {
      lines.push(text);
      draw();
    },
    end() {
      draw();
      clearTimeout(timer);
      area.end();
    },
  };
}
