import type { Command } from "commander";
import { DroverError, toError } from "../../core/errors.ts";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { readInput, whoAmI } from "../options.ts";

type Options = { by: string; jsonValue?: boolean; json?: boolean };

/** `drover answer ID CALL VALUE`. */
export function registerAnswer(program: Command, context: Context, exit: Exit): void {
  program
    .command("answer")
    .description("give a call that waits for an answer its result; deny declines it instead")
    .argument("<id>", "id of the run")
    .argument("<call>", "id of the call, such as call-2-1")
    .argument("<value>", "the answer; - reads standard input")
    .option("--json-value", "the value is JSON, for a question whose answer is no text")
    .option("--by <who>", "who answers", whoAmI())
    .option("--json", "print JSON")
    .action((id: string, callId: string, value: string, options: Options) =>
      act(context, exit, options, () => answer(context, [id, callId, value], options)),
    );
}

async function answer(
  context: Context,
  [id, callId, argument]: [string, string, string],
  { by, jsonValue, json }: Options,
): Promise<number> {
  const text = readInput(argument);
  const value = jsonValue ? parseJson(text) : text;
  return withDrover(context, async (drover) => {
    const run = drover.get(id);
    await run.answer(callId, value, { by });
    if (json) context.output.json(await run.status());
    else context.output.line(`${id}  ${callId} answered`);
    return 0;
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new DroverError(
      "invalid",
      `The value is not JSON (${toError(error).message}). Leave out --json-value for text.`,
    );
  }
}
