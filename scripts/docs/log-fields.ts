import { logFields } from "../../src/telemetry/log-fields.ts";

/** Every field of log lines and what it means. */
export function makeLogFieldsTable(): string {
  const rows = Object.entries(logFields).map(([name, meaning]) => `| \`${name}\` | ${meaning} |`);
  return ["| Field | Meaning |", "| --- | --- |", ...rows].join("\n");
}
