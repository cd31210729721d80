import { createHash, randomBytes } from "node:crypto";

// Names of things on the wire. A response's own part, `tail`, is in the names of all that belongs to it.

/** What the ids of a request are made of: random, or the same again for the same idempotency key of the same tenant. */
export function newTail(key?: { endpoint: string; tenant: string | undefined; key: string }): string {
  if (!key) return randomBytes(20).toString("hex");
  const { endpoint, tenant, key: given } = key;
  return createHash("sha256")
    .update(JSON.stringify([endpoint, tenant ?? null, given]))
    .digest("hex")
    .slice(0, 40);
}

export function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** A message of the assistant: one execution's text of one turn. `again`: what counts of it after all, in a stream. */
export function toMessageId(tail: string, turn: number, execution: string, again = false): string {
  return `msg_${tail}_${turn}_${execution}${again ? "_again" : ""}`;
}

/** The name that an item has in a Response that is read after its end, where nothing was said in vain. */
export function toFinalId(id: string): string {
  return id.replace(/_again$/, "");
}

export function toFunctionId(tail: string, callId: string): string {
  return `fc_${tail}_${callId.replace("call-", "").replace("-", "_")}`;
}

/** A call's name for the caller. It says which run waits for its result, so that it can be found without anything else. */
export function toWireCallId(runId: string, callId: string): string {
  return `${callId.replace("call-", "call_").replace("-", "_")}_${runId}`;
}

/** The run and the call that a name made by `toWireCallId` means; undefined for another's name. */
export function fromWireCallId(id: string): { runId: string; callId: string } | undefined {
  const [, turn, position, runId] = /^call_(\d{1,9})_(\d{1,9})_([A-Za-z0-9._-]{1,128})$/.exec(id) ?? [];
  return runId === undefined ? undefined : { runId, callId: `call-${turn}-${position}` };
}

/** The tail of the response that an item of the wire belongs to; undefined for another's item. */
export function tailOfItem(id: string): string | undefined {
  return /^(?:msg|fc)_([0-9a-f]{40})_/.exec(id)?.[1];
}
