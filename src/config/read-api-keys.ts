import { readFileSync } from "node:fs";
import { z } from "zod";
import { hashSecret, keyNamePattern, parseApiKey } from "../api-keys.ts";
import { toError } from "../core/errors.ts";
import { runIdSchema } from "../core/new-run.ts";
import { findRepeatedKey } from "../core/policy.ts";
import { type StoredKey, scopes } from "../ports-operators.ts";

// No message here shows what was given: it may be a secret in the wrong place.

const keySchema = z
  .strictObject({
    id: z
      .string()
      .regex(/^[A-Za-z0-9-]{1,32}$/, "expected 1 to 32 letters, digits or '-'")
      .optional(),
    name: z.string().regex(keyNamePattern, "expected 1 to 100 characters, none of them a control character").optional(),
    scopes: z
      .array(z.enum(scopes, `expected some of ${scopes.join(", ")}`), "expected a list")
      .min(1, "expected one or more"),
    tenant: runIdSchema.optional(),
    expiresAt: z.iso.datetime({ offset: true, error: "expected a time like 2030-01-31T12:00:00Z" }).optional(),
    hash: z
      .string()
      .regex(/^[0-9a-f]{64}$/i, "expected the SHA-256 of the secret, 64 hexadecimal digits")
      .optional(),
    key: z.string().optional(),
  })
  .superRefine(({ id, hash, key }, context) => {
    const parts = parseApiKey(key ?? "");
    const refuse = (message: string): void => void context.issues.push({ code: "custom", message, input: undefined });
    if ((hash === undefined) === (key === undefined)) refuse('expected either "hash" or "key"');
    else if (hash !== undefined && id === undefined) refuse('"id": expected one beside "hash"');
    else if (key !== undefined && !parts) refuse('"key": expected a whole key, drv_ID_SECRET');
    else if (parts && id !== undefined && id !== parts.id) refuse('"id" is another than the one in "key"');
  })
  .transform(({ id, name, hash = "", key = "", expiresAt, ...rest }): StoredKey => {
    const parts = parseApiKey(key);
    const keyId = parts?.id ?? id ?? "";
    return {
      id: keyId,
      name: name ?? keyId,
      scopes: rest.scopes,
      tenant: rest.tenant,
      secretHash: parts ? hashSecret(parts.secret) : hash.toLowerCase(),
      createdAt: 0,
      expiresAt: expiresAt === undefined ? undefined : Date.parse(expiresAt),
    };
  });

/** Keys from JSON text, or from the file that a path names. */
export function readApiKeys(value: string, context: z.core.$RefinementCtx): StoredKey[] {
  const refuse = (...problems: string[]): StoredKey[] => {
    for (const message of problems) context.issues.push({ code: "custom", message, input: undefined });
    return [];
  };
  let json: unknown;
  try {
    const text = /^[[{]/.test(value) ? value : readFileSync(value, "utf8").replace(/^\uFEFF/, "");
    json = JSON.parse(text);
    // Which of two lists of scopes counts must not hang on their order.
    if (findRepeatedKey(text) !== undefined) return refuse("a field stands twice in one key: only one can hold");
  } catch (error) {
    const { code = toError(error).name } = toError(error) as NodeJS.ErrnoException;
    return refuse(
      `expected a list of keys in JSON or the path of a file with one, received what cannot be read (${code})`,
    );
  }
  if (!Array.isArray(json)) return refuse("expected a list of keys in JSON");
  const problems: string[] = [];
  const keys = json.flatMap((entry: unknown, index) => {
    const parsed = keySchema.safeParse(entry);
    if (parsed.success) return [parsed.data];
    problems.push(...parsed.error.issues.map((issue) => `key ${index + 1}${toField(issue)}: ${toProblem(issue)}`));
    return [];
  });
  const ids = keys.map(({ id }) => id);
  const twice = ids.findIndex((id, index) => ids.indexOf(id) !== index);
  if (twice >= 0) problems.push(`key ${twice + 1}: another key before it has the same id`);
  return problems.length > 0 ? refuse(...problems) : keys;
}

function toField({ path }: z.core.$ZodIssue): string {
  return path.length === 0 ? "" : `, ${path.join(".")}`;
}

/** The library's own message would name fields that are not known, and one of those may be a secret. */
function toProblem(issue: z.core.$ZodIssue): string {
  const fields = "id, name, scopes, tenant, expiresAt, hash, key";
  return issue.code === "unrecognized_keys" ? `has a field that is none of ${fields}` : issue.message;
}
