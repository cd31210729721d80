import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { z } from "zod";

const toolSchema = z.strictObject({
  name: z.string(),
  description: z.string(),
  parameters: z.record(z.string(), z.unknown()),
  /** A JavaScript function of the arguments. */
  impl: z.string(),
});
const configSchema = z.strictObject({
  maxSteps: z.int().default(8),
  maxAttempts: z.int().default(4),
  retryBaseMs: z.int().default(50),
  idleTimeoutMs: z.int().default(1_500),
  stepTimeoutMs: z.int().default(6_000),
  maxToolResultChars: z.int().default(20_000),
  deadlineMs: z.int().default(20_000),
});
const caseSchema = z.looseObject({
  id: z.string(),
  kind: z.string(),
  summary: z.string(),
  mode: z.enum(["any", "stream", "nonstream"]),
  system: z.string().default(""),
  input: z.string(),
  tools: z.array(toolSchema),
  config: configSchema.prefault({}),
  exchanges: z.array(z.looseObject({})).min(1),
  expect: z.looseObject({ outcome: z.union([z.string(), z.array(z.string())]), notes: z.string().min(20) }),
});
/** One case of test/corpus, its limits filled in. Its README says what the fields mean. */
export type CorpusCase = z.output<typeof caseSchema>;
export type CorpusTool = z.output<typeof toolSchema>;

const folders = ["cases", "more"].map((name) => new URL(`../corpus/${name}/`, import.meta.url));

/** Every case there is, in the order of their names; DROVER_CORPUS keeps those whose name holds that text. */
export function readCorpus(): CorpusCase[] {
  const wanted = process.env.DROVER_CORPUS ?? "";
  const files = folders.flatMap((folder) => readdirSync(folder).map((name) => new URL(name, folder)));
  const cases = files.map((file) => {
    const found = caseSchema.parse(JSON.parse(readFileSync(file, "utf8")));
    const name = basename(file.pathname, ".json");
    if (found.id !== name) throw new Error(`the case ${found.id} stands in a file of another name: ${name}`);
    return found;
  });
  return cases.filter(({ id }) => id.includes(wanted)).sort((a, b) => (a.id < b.id ? -1 : 1));
}
