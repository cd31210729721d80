import type { Command } from "commander";
import { DroverError } from "../../core/errors.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { isUpToPerson } from "../format/run.ts";
import { whoAmI } from "../options.ts";

type Options = { by: string; reason?: string; hash?: string; json?: boolean };

/** `drover approve ID [CALL]`. */
export function registerApprove(program: Command, context: Context, exit: Exit): void {
  addDecision(program, "approve", "let a call that waits for a person run")
    .option("--hash <hash>", "of the arguments you decided on, as shown; a call of others is refused")
    .action((id: string, callId: string | undefined, options: Options) =>
      act(context, exit, options, () =>
        decide(
          context,
          id,
          { callId, json: options.json },
          {
            told: "approved",
            apply: (run, call) => run.approve(call, { by: options.by, argumentsHash: options.hash }),
          },
        ),
      ),
    );
}

/** `drover deny ID [CALL]`. */
export function registerDeny(program: Command, context: Context, exit: Exit): void {
  addDecision(program, "deny", "refuse a call that waits for a person; the model reads the reason")
    .option("--reason <text>", "why", "denied from the command line")
    .action((id: string, callId: string | undefined, options: Options) =>
      act(context, exit, options, () =>
        decide(
          context,
          id,
          { callId, json: options.json },
          {
            told: "denied",
            apply: (run, call) => run.deny(call, { by: options.by, reason: options.reason ?? "" }),
          },
        ),
      ),
    );
}

function addDecision(program: Command, name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .argument("<id>", "id of the run")
    .argument("[call]", "id of the call; may be left out when only one waits")
    .option("--by <who>", "who decides", whoAmI())
    .option("--json", "print JSON");
}

type Decision = { told: string; apply(run: RunHandle, callId: string): Promise<void> };

async function decide(
  context: Context,
  id: string,
  asked: { callId: string | undefined; json: boolean | undefined },
  decision: Decision,
): Promise<number> {
  return withDrover(context, async (drover) => {
    const run = drover.get(id);
    const callId = asked.callId ?? (await onlyWaiting(run));
    await decision.apply(run, callId);
    if (asked.json) context.output.json(await run.status());
    else context.output.line(`${id}  ${callId} ${decision.told}`);
    return 0;
  });
}

async function onlyWaiting(run: RunHandle): Promise<string> {
  const waiting = (await run.status()).openCalls.filter(isUpToPerson);
  const [first] = waiting;
  if (first && waiting.length === 1) return first.callId;
  throw new DroverError(
    "not_allowed",
    waiting.length === 0
      ? `Run "${run.id}" waits for no decision.`
      : `Run "${run.id}" waits for several decisions. Name one of ${waiting.map((call) => call.callId).join(", ")}.`,
  );
}
