import type { Context } from "./context.ts";
import { toCode, toStatement } from "./errors.ts";
import { toPrintable } from "./format/text.ts";

/** 0 only when what was asked happened; 1 otherwise; 128 and the signal's number when a signal ended it. */
export type ExitCode = number;

/** Receives a command's exit code; the program's last act is to use it. */
export type Exit = { code: ExitCode };

/**
 * Runs a command's action and turns what it throws into one statement on standard error: a line of JSON with `--json`.
 */
export async function act(
  context: Context,
  exit: Exit,
  options: { json?: boolean | undefined },
  action: () => Promise<ExitCode>,
): Promise<void> {
  try {
    exit.code = await action();
  } catch (error) {
    exit.code = 1;
    report(context, error, options.json === true);
  }
}

function report(context: Context, error: unknown, asJson: boolean): void {
  const message = toStatement(error);
  context.output.note(
    asJson ? JSON.stringify({ error: { code: toCode(error), message } }) : `drover: ${toPrintable(message)}`,
  );
  if (isDebug(context) && error instanceof Error && error.stack) context.output.note(error.stack);
}

/** Also when the settings themselves are what is wrong. */
function isDebug(context: Context): boolean {
  try {
    return context.config().logLevel === "debug";
  } catch {
    return process.env.DROVER_LOG_LEVEL === "debug";
  }
}
