import type { KnownAgent } from "../ports.ts";
import type { HttpContext, HttpDeps } from "./types.ts";

/**
 * The agents that whoever asks may know of: all that some worker has told of; for a key of a tenant those that the tenant
 * has runs of, since what only others use is theirs.
 */
export async function knownAgents(
  { presence }: Pick<HttpDeps, "presence">,
  context: HttpContext,
): Promise<KnownAgent[]> {
  const { caller, runs } = context.var;
  const agents = await presence.agents();
  if (caller.tenant === undefined) return agents;
  const counts = await Promise.all(agents.map(({ name }) => runs.count({ agent: name })));
  return agents.filter((_, index) => Object.values(counts[index] ?? {}).some((count) => count > 0));
}
