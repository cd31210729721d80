import { canonical } from "../../core/canonical.ts";
import type { KnownAgent } from "../../ports.ts";
import type { HttpDeps } from "../types.ts";
import { badField, V1Error } from "./errors.ts";

/** An agent as a model is listed. `created`: when a worker told of it last, in seconds. */
export function toModel({ name, seenAt }: KnownAgent): Record<string, unknown> {
  return { id: name, object: "model", created: Math.floor(seenAt / 1_000), owned_by: "drover" };
}

/** @throws V1Error 404 "model_not_found" unless some worker knew an agent of that name. */
export async function findAgent({ presence }: Pick<HttpDeps, "presence">, model: string): Promise<KnownAgent> {
  const agents = await presence.agents();
  const agent = agents.find(({ name }) => name === model);
  if (agent) return agent;
  const names = agents.map(({ name }) => name).slice(0, 10);
  const known = names.length === 0 ? "No worker has told of an agent yet." : `Agents here: ${names.join(", ")}.`;
  const details = { code: "model_not_found", param: "model" };
  throw new V1Error(404, `The model '${model}' does not exist: it must be the name of an agent. ${known}`, details);
}

/** A wanted form of the answer, as both APIs have it. */
export type Format = { type: string; schema?: Record<string, unknown> | undefined };

/**
 * Whether the answer must be JSON. An agent's output is its own: a request may ask for that and no other.
 *
 * @throws V1Error for a form that the agent does not answer in.
 */
export function wantsJson(agent: KnownAgent, format: Format | null | undefined, param: string): boolean {
  if (!format || format.type === "text") return false;
  if (format.type !== "json_schema" && format.type !== "json_object") {
    throw badField(`${param}.type`, `${param}.type must be "text", "json_object" or "json_schema".`);
  }
  const { output } = agent;
  if (!output) {
    const message = `The agent "${agent.name}" answers in text. Give its definition an output, then ask for it here.`;
    throw badField(param, message);
  }
  if (format.type === "json_schema" && !isSameSchema(format.schema ?? {}, output.schema)) {
    const message = `The agent "${agent.name}" answers by a schema of its own, and this is another: ${JSON.stringify(output.schema)}`;
    throw badField(`${param}.schema`, message);
  }
  return true;
}

function isSameSchema(a: Record<string, unknown>, b: Record<string, unknown>): boolean {
  return canonical(essence(a)) === canonical(essence(b));
}

/** Words that say nothing about which values fit, or that libraries add on their own. */
const wording = new Set(["$schema", "$id", "title", "description", "examples", "default", "additionalProperties"]);

/** A schema without its wording. Names of properties are no keywords. */
function essence(schema: unknown, isNames = false): unknown {
  if (Array.isArray(schema)) {
    const items = schema.map((item) => essence(item));
    return items.every((item) => typeof item === "string") ? items.toSorted() : items;
  }
  if (typeof schema !== "object" || schema === null) return schema;
  const entries = Object.entries(schema).filter(([key]) => isNames || !wording.has(key));
  return Object.fromEntries(
    entries.map(([key, value]) => [key, essence(value, !isNames && (key === "properties" || key === "$defs"))]),
  );
}
