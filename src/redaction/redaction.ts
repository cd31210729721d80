import { DroverError } from "../core/errors.ts";
import { createRedactor } from "../core/redact.ts";
import type { Redaction } from "../core/redact-event.ts";
import type { KnownSecret } from "../core/redact-words.ts";
import { parsePatterns, type RedactPattern } from "./patterns.ts";

/**
 * What is redacted, besides the kinds of secrets that Drover knows.
 * - `patterns`: what they match is a secret too; executed in linear time, so without looking around and back references;
 * - `stored`: default false; also redacts what is kept of a run: input, answers, results. A model then reads
 *   `[redacted: kind]` in the turns that follow. Arguments of calls stay, since tools are run with them.
 */
export type RedactionOptions = { patterns?: readonly RedactPattern[] | undefined; stored?: boolean | undefined };

/** @throws DroverError "invalid", naming every pattern that cannot be used, and why. */
export function toRedaction(options: RedactionOptions = {}, known: readonly KnownSecret[]): Redaction {
  const parsed = parsePatterns(options.patterns ?? []);
  if (!parsed.ok) throw new DroverError("invalid", `The redaction cannot be used: ${parsed.problems.join("; ")}.`);
  return { redactor: createRedactor({ known, patterns: parsed.patterns }), stored: options.stored === true };
}
