import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { DroverError, toError } from "../core/errors.ts";
import type { Agent } from "../define-agent.ts";
import { toStatement } from "./errors.ts";

/**
 * The agents a module exports: each export that is an agent, or an array or a record of agents, the default export too.
 *
 * @throws DroverError "not_found" when the file is not there, "invalid" when it cannot be loaded, has no agents, or has
 * two different ones of one name.
 */
export async function loadAgents(file: string, dir: string): Promise<Agent[]> {
  const path = resolve(dir, file);
  if (!existsSync(path) || !statSync(path).isFile()) {
    throw new DroverError("not_found", `There is no file ${path}. Give the path of a module that exports agents.`);
  }
  const agents = collectAgents(await importModule(path, file));
  if (agents.length === 0) {
    throw new DroverError(
      "invalid",
      `${file} exports no agents. Export at least one, such as: export const assistant = defineAgent({ ... }). (Whatever else the file does was done as it was loaded.)`,
    );
  }
  const names = agents.map((agent) => agent.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) {
    throw new DroverError("invalid", `${file} exports two different agents named "${twice}". Rename one of them.`);
  }
  return agents;
}

async function importModule(path: string, file: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(path).href)) as Record<string, unknown>;
  } catch (thrown) {
    const error = toError(thrown);
    const why = error.name === "DroverError" ? toStatement(error) : `${error.name}: ${error.message}`;
    throw new DroverError("invalid", `${file} cannot be loaded. ${why}`, { cause: error });
  }
}

/** Agents among a module's exports, each once though it may be exported under several names. */
export function collectAgents(exports: Record<string, unknown>): Agent[] {
  const found = Object.values(exports).flatMap((value) => {
    if (isAgent(value)) return [value];
    if (Array.isArray(value)) return value.filter(isAgent);
    return isPlainRecord(value) ? Object.values(value).filter(isAgent) : [];
  });
  return [...new Set(found)];
}

function isPlainRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/** By shape: an agents file may bring a copy of this package of its own. */
function isAgent(value: unknown): value is Agent {
  const agent = value as Partial<Agent> | null | undefined;
  return (
    typeof agent === "object" &&
    typeof agent?.name === "string" &&
    typeof agent.hash === "string" &&
    typeof agent.definition === "object" &&
    typeof agent.code === "object" &&
    Array.isArray(agent.tools)
  );
}
