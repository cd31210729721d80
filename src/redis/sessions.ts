import { DroverError } from "../core/errors.ts";
import type { InputClaim, RunStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { runScript } from "./read.ts";
import { claimInputScript } from "./scripts.ts";

/**
 * As of one moment. What another program has put into the line is taken out: nobody could tell that it is not a run's, and
 * all behind it would wait. KEYS: 1 line, 2 messages. ARGV: 1 how many of the line.
 */
const readScript = `
local entries
repeat
  entries = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1)
  local foreign = 0
  for _, entry in ipairs(entries) do
    local round = string.match(entry, '^([1-9]%d*):[%w._-]+$')
    if not round or #round > 15 then foreign = foreign + redis.call('LREM', KEYS[1], 0, entry) end
  end
until foreign == 0
return {entries, redis.call('LLEN', KEYS[2])}
`;

/** What is read and written of sessions beside the commits of their runs. */
export function createSessionStore(
  connection: RedisConnection,
  keys: Keys,
): Pick<RunStore, "readSession" | "claimInput" | "confirmInput"> {
  return {
    async readSession(session, limit) {
      const { line, messages } = keys.session(session);
      const input = { keys: [line, messages], args: [limit] };
      const reply = await connection.use((client) => runScript(client, readScript, input));
      const [members, length] = reply as unknown as [string[], number];
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
