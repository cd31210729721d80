import { DroverError } from "../core/errors.ts";
import type { InputClaim, RunStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { runScript, unwrap } from "./read.ts";
import { claimInputScript } from "./scripts.ts";

/** What is read and written of sessions beside the commits of their runs. */
export function createSessionStore(
  connection: RedisConnection,
  keys: Keys,
): Pick<RunStore, "readSession" | "claimInput" | "confirmInput"> {
  return {
    async readSession(session, limit) {
      const { line, messages } = keys.session(session);
      const [members, length] = await connection.use(async (client) => {
        const replies = await client
          .multi()
          .lrange(line, 0, limit - 1)
          .llen(messages)
          .exec();
        return (replies ?? []).map(unwrap) as [string[], number];
      });
      const entries = members.map((member) => {
        const at = member.indexOf(":");
        return { runId: member.slice(at + 1), round: Number(member.slice(0, at)) };
      });
      return { line: entries, messageCount: length };
    },

    async claimInput(session, inputId, inputHash, refusedBy = "") {
      const { inputs, line } = keys.session(session);
      const input = { keys: [inputs, line, keys.run(inputId).head], args: [inputId, inputHash, refusedBy] };
      const [decision] = await connection.use((client) => runScript(client, claimInputScript, input));
      return decodeClaim(session, String(decision));
    },

    async confirmInput(session, inputId, { runId, inputHash }) {
      const decision = `taken ${runId} ${inputHash}`;
      await connection.use((client) => client.hset(keys.session(session).inputs, inputId, decision));
    },
  };
}

function decodeClaim(session: string, decision: string): InputClaim {
  const [state, runId, inputHash] = decision.split(" ");
  if (runId && inputHash) return { runId, inputHash, taken: state === "taken" };
  throw new DroverError(
    "invalid",
    `The stored record of session ${session} is damaged (an input). Delete that record.`,
  );
}
