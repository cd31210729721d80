import { readFileSync } from "node:fs";
import { z } from "zod";
import { DroverError, toError } from "../core/errors.ts";
import type { Agent } from "../define-agent.ts";
import type { ModelClient, ModelFailure } from "../ports.ts";
import { type ScriptedTurn, scriptedModel } from "../testing/scripted-model.ts";
import type { Tool } from "../tools/define-tool.ts";
import { toValueSchema } from "../tools/parameters.ts";
import { type Random, randomFor, stableName } from "./random.ts";
import { examplesIn, sampleFor } from "./sample.ts";

export type ScriptCall = { name: string; arguments: Record<string, unknown> };
/** What the model says in one turn. A turn without calls is the final answer. */
export type ScriptTurn = { text: string; toolCalls: ScriptCall[]; fail?: ModelFailure[] | undefined };
export type Script = readonly ScriptTurn[];
/** What a model says in a run: the same whenever, and by whichever process, it is asked. */
export type Scripts = (runId: string) => Script;

const callSchema = z.strictObject({
  name: z.string().min(1),
  arguments: z.record(z.string(), z.unknown()).default({}),
});
const turnSchema = z.union([
  z.string().transform((text) => ({ text, toolCalls: [] })),
  z.strictObject({ text: z.string().default(""), toolCalls: z.array(callSchema).default([]) }),
]);
const turnsSchema: z.ZodType<ScriptTurn[]> = z.array(turnSchema).min(1);
const fileSchema = z.union([turnsSchema, z.record(z.string(), turnsSchema)]);

/**
 * Reads a script: JSON, a list of turns for every agent, or an object with such a list for each agent's name. A turn is a text, or
 * `{ "text": "...", "toolCalls": [{ "name": "...", "arguments": {...} }] }`.
 *
 * @throws DroverError "invalid" naming what does not fit.
 */
export function readScript(file: string): (agent: string) => Script | undefined {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new DroverError("invalid", `The script ${file} cannot be read: ${toError(error).message}`);
  }
  const parsed = fileSchema.safeParse(value);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "script"}: ${message}`);
    throw new DroverError("invalid", `The script ${file} cannot be used: ${problems.join("; ")}.`);
  }
  const { data } = parsed;
  return (agent) => (Array.isArray(data) ? data : data[agent]);
}

const mostTurns = 6;
const mostParallel = 3;
const transient: ModelFailure = { class: "transient", code: "overloaded", message: "The scripted model is busy." };

/** Scripts made up for an agent from the schemas of its tools. */
export function makeScripts(agent: Agent, seed: number): Scripts {
  const known = new Map<string, Script>();
  return (runId) => {
    const script =
      known.get(runId) ?? makeScript(agent, randomFor(seed, "script", agent.name, stableName(runId)), runId);
    known.set(runId, script);
    return script;
  };
}

/** Each tool once, in random order, up to three at a time; then the answer. Now and then a model call fails at first. */
function makeScript(agent: Agent, random: Random, runId: string): Script {
  const turnsAllowed = Math.min(mostTurns, (agent.definition.limits.maxTurns ?? mostTurns + 1) - 1);
  const left = random.shuffled(agent.tools);
  const turns: ScriptTurn[] = [];
  while (left.length > 0 && turns.length < turnsAllowed) {
    const tools = left.splice(0, random.between(1, mostParallel));
    const toolCalls = tools.flatMap((tool) => makeCall(tool, random) ?? []);
    if (toolCalls.length > 0)
      turns.push({ text: `turn ${turns.length + 1} of ${runId}`, toolCalls, ...failing(random) });
  }
  return [...turns, { text: makeAnswer(agent, random, runId), toolCalls: [], ...failing(random) }];
}

function failing(random: Random): Pick<ScriptTurn, "fail"> {
  return random.chance(1 / 8) ? { fail: [transient] } : {};
}

/** A call with arguments that fit; undefined if none could be made up. */
export function makeCall(tool: Tool, random: Random): ScriptCall | undefined {
  const made = sampleFor(tool.parameters, random, examplesIn(tool.description));
  return made && { name: tool.name, arguments: made.value as Record<string, unknown> };
}

const answerTries = 30;

/** An answer that the agent's output takes, if one can be made up. */
function makeAnswer(agent: Agent, random: Random, runId: string): string {
  const { output } = agent.definition;
  if (!output) return `answer of ${runId}`;
  const parameters = toValueSchema(output.schema);
  for (let count = 0; count < answerTries; count += 1) {
    const made = sampleFor(parameters, random);
    if (made && fits(agent, made.value)) return JSON.stringify(made.value);
  }
  return "{}";
}

function fits(agent: Agent, value: unknown): boolean {
  try {
    agent.readOutput(value);
    return true;
  } catch {
    return false;
  }
}

/** Beyond any script: an agent that asks again for its answer gets it again. */
const turnsAnswered = 100;

/** A model that says what the scripts say, and goes on saying the last of it. */
export function modelOf(scripts: Scripts): ModelClient {
  const reply = ({ runId, turn }: { runId: string; turn: number }): ScriptedTurn => {
    const script = scripts(runId);
    const { text, toolCalls, fail } = script[turn - 1] ?? { ...script.at(-1), text: script.at(-1)?.text };
    return { text, toolCalls: toolCalls ?? [], fail };
  };
  return scriptedModel(Array.from({ length: turnsAnswered }, () => reply)).client;
}
