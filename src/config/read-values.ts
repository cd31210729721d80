import { readFileSync } from "node:fs";
import { z } from "zod";
import { toError } from "../core/errors.ts";
import { findRepeatedKey, type Policy, parsePolicy } from "../core/policy.ts";
import { parsePatterns, type RedactPattern } from "../redaction/patterns.ts";
import { splitHosts } from "../redis-url.ts";

// What a setting's text comes to. A problem is told without the text where that may hold a secret.

const redisSchemes = ["redis:", "rediss:", "unix:"];

export function isRedisUrl(text: string): boolean {
  return text.startsWith("/") || isUrl(text, redisSchemes) || splitHosts(text) !== undefined;
}

export function isHttpUrl(text: string): boolean {
  return isUrl(text, ["http:", "https:"]);
}

function isUrl(text: string, schemes: string[]): boolean {
  const url = URL.parse(text);
  return url !== null && schemes.includes(url.protocol) && (url.protocol === "unix:" || url.hostname !== "");
}

export function integer(min: number, max: number): z.ZodType {
  return z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number)
    .pipe(z.int().min(min).max(max));
}

export const trueOrFalse: z.ZodType = z.enum(["true", "false"]).transform((value) => value === "true");

/** A policy from JSON text, or from the file that a path names. */
export function readPolicy(value: string, context: z.core.$RefinementCtx): Policy {
  const refuse = (...problems: string[]): Policy => {
    for (const message of problems) context.issues.push({ code: "custom", message, input: value });
    return [];
  };
  const isText = /^[[{]/.test(value);
  const where = isText ? "" : `${value}: `;
  let json: unknown;
  try {
    // Editors may put a byte order mark in front.
    const text = isText ? value : readFileSync(value, "utf8").replace(/^\uFEFF/, "");
    json = JSON.parse(text);
    const twice = findRepeatedKey(text);
    if (twice !== undefined) return refuse(`${where}the field ${twice} stands twice in one rule: only one can hold`);
  } catch (error) {
    return refuse(`${where}expected a list of rules in JSON, received what cannot be read (${toError(error).message})`);
  }
  const parsed = parsePolicy(json);
  return parsed.ok ? parsed.policy : refuse(...parsed.problems.map((problem) => where + problem));
}

/** Patterns from JSON text. */
export function readPatterns(value: string, context: z.core.$RefinementCtx): RedactPattern[] {
  const refuse = (message: string): void => void context.issues.push({ code: "custom", message, input: value });
  try {
    const json = JSON.parse(value) as RedactPattern[];
    const parsed = parsePatterns(json);
    if (parsed.ok) return json;
    for (const problem of parsed.problems) refuse(problem);
  } catch (error) {
    refuse(`expected a list of names and patterns in JSON, received what cannot be read (${toError(error).name})`);
  }
  return [];
}
