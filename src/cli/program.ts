import { Command, CommanderError } from "commander";
import { droverVersion } from "../presence.ts";
import type { Exit } from "./command.ts";
import { registerAnswer } from "./commands/answer.ts";
import { registerCancel } from "./commands/cancel.ts";
import { registerChaos } from "./commands/chaos.ts";
import { registerCheck } from "./commands/check.ts";
import { registerApprove, registerDeny } from "./commands/decide.ts";
import { registerDelete } from "./commands/delete.ts";
import { registerDemo } from "./commands/demo.ts";
import { registerDev } from "./commands/dev.ts";
import { registerDoctor } from "./commands/doctor.ts";
import { registerKeys } from "./commands/keys.ts";
import { registerList } from "./commands/list.ts";
import { registerPause, registerResume } from "./commands/pause.ts";
import { registerReplay } from "./commands/replay.ts";
import { registerRetry } from "./commands/retry.ts";
import { registerSend } from "./commands/send.ts";
import { registerServe } from "./commands/serve.ts";
import { registerShow } from "./commands/show.ts";
import { registerStart } from "./commands/start.ts";
import { registerWatch } from "./commands/watch.ts";
import { registerWorker } from "./commands/worker.ts";
import { addCompletion } from "./completion.ts";
import { type Context, createContext } from "./context.ts";
import { toPrintable } from "./format/text.ts";
import type { Output } from "./output.ts";

const commands = [
  registerDemo,
  registerDev,
  registerWorker,
  registerServe,
  registerStart,
  registerWatch,
  registerShow,
  registerReplay,
  registerList,
  registerSend,
  registerApprove,
  registerDeny,
  registerAnswer,
  registerCancel,
  registerPause,
  registerResume,
  registerRetry,
  registerDelete,
  registerKeys,
  registerDoctor,
  registerCheck,
  registerChaos,
];

/** Runs one command line, program name left out, and resolves to its exit code. */
export async function runCli(argv: string[]): Promise<number> {
  const context = createContext(process.cwd());
  const { output } = context;
  const exit: Exit = { code: 0 };
  const program = createProgram(context, exit);
  await addCompletion(program, context, argv);
  for (const command of program.commands) command.exitOverride().copyInheritedSettings(program);
  explainErrors(program, output, argv.includes("--json"));
  try {
    await program.parseAsync(argv, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode;
  }
  return exit.code;
}

/** All commands with their options, ready to parse. */
export function createProgram(context: Context, exit: Exit): Command {
  const { output } = context;
  const program = new Command("drover")
    .description("Durable, queue-driven agent workers on Redis and BullMQ")
    .version(droverVersion())
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({ writeOut: output.write, writeErr: (text) => output.note(text.trimEnd()) })
    .addHelpText(
      "after",
      "\nSettings come from the environment or .env: REDIS_URL, OPENAI_API_KEY and others (see README).",
    );
  for (const register of commands) register(program, context, exit);
  return program;
}

/** What commander says of a command line that cannot be used says what to do, once, and is JSON for programs. */
function explainErrors(command: Command, output: Output, asJson: boolean, parent?: string): void {
  const name = parent === undefined ? command.name() : `${parent} ${command.name()}`;
  command.configureOutput({
    outputError: (text) => {
      const message = text.trim().replace(/^error: /, "");
      if (asJson) output.note(JSON.stringify({ error: { code: "invalid", message } }));
      else output.note(`drover: ${toPrintable(message)}${hasHint.test(message) ? "" : ` (${name} --help tells more)`}`);
    },
  });
  for (const inner of command.commands) explainErrors(inner, output, asJson, name);
}

const hasHint = /Did you mean|Expected|Allowed choices/;
