// Writes the JSON Schema of the `runs` queue contract; the argument is the file, default dist/runs.schema.json.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { makeRunsSchema } from "../src/bullmq/runs-schema.ts";

const target = process.argv[2] ?? "dist/runs.schema.json";
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, `${JSON.stringify(makeRunsSchema(), null, 2)}\n`);
