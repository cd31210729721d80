import { DroverError } from "../core/errors.ts";
import { runIdSchema } from "../core/new-run.ts";

/**
 * The session of a tenant that is called `session` by its callers. Two tenants' names never make the same one: the
 * tenant's length says where it ends.
 *
 * @throws DroverError "invalid" for a name that no session can have, or one too long together with the tenant's.
 */
export function toTenantSession(tenant: string, session: string): string {
  const prefix = prefixOf(tenant);
  const id = `${prefix}${session}`;
  const own = runIdSchema.safeParse(session).error?.issues[0];
  if (own) throw new DroverError("invalid", `session: ${own.message}.`);
  if (!runIdSchema.safeParse(id).success) {
    throw new DroverError("invalid", `session: must have at most ${Math.max(128 - prefix.length, 0)} characters.`);
  }
  return id;
}

/** The session that a caller means by a name. @throws DroverError "invalid" */
export function toSession({ tenant }: { tenant?: string | undefined }, session: string): string {
  return tenant === undefined ? session : toTenantSession(tenant, session);
}

/** What a tenant's callers call the session; undefined if it is not the tenant's alone. */
export function fromTenantSession(tenant: string, id: string): string | undefined {
  const prefix = prefixOf(tenant);
  return id.startsWith(prefix) ? id.slice(prefix.length) : undefined;
}

function prefixOf(tenant: string): string {
  return `t${tenant.length}.${tenant}.`;
}
