// Secrets that are told by the name of the field that holds them, in values such as log fields, arguments and results.

import { placeholder } from "./redact-scan.ts";

const secretName =
  /(?:pass(?:word|wd|phrase|code)|pwd|secret|(?:api|access|secret|private|account|signing|encryption)key|authorization|cookie)s?$/;
const secretNamed = /(?:clientsecret|secret)(?:value|text)$|secretkeybase$/;
// These names are given to other things too: only what looks like a secret is one.
const doubtfulName = /(?:token|credentials?)$/;
const otherToken = /(?:page|next|continuation|cursor|sync|pad|bos|eos|unk|sep|cls|mask|stop|special)token$/;

const looksSecret = (value: string): boolean => !/\s/.test(value) && (value.length >= 12 || /[0-9]/.test(value));

/** What a field of this name holds; undefined for a name that tells nothing. */
function kindOf(key: string): { kind: string; sure: boolean } | undefined {
  // A name is short. What is long is looked through as text.
  if (key.length > 80) return undefined;
  const name = key.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
  if (secretName.test(name) || secretNamed.test(name)) return { kind: toKind(name), sure: true };
  if (doubtfulName.test(name) && !otherToken.test(name)) return { kind: "token", sure: false };
  return undefined;
}

function toKind(name: string): string {
  if (name.includes("cookie")) return "cookie";
  if (name.includes("authorization")) return "authorization";
  if (name.includes("key")) return "key";
  return name.includes("secret") ? "secret" : "password";
}

const deepest = 200;

/** The same value with each text redacted. `text` redacts one. What is no JSON (dates, instances) stays as it is. */
export function redactValue<T>(text: (text: string) => string, value: T): T {
  const texts = (item: unknown, kind: string | undefined, depth: number): unknown => {
    if (typeof item === "string") return kind === undefined || item === "" ? text(item) : placeholder(kind);
    if (typeof item === "number" && kind !== undefined) return placeholder(kind);
    if (typeof item !== "object" || item === null) return item;
    if (depth > deepest) return placeholder("nested too deeply");
    // What is under a secret's name but is an object (a schema, say) has names of its own.
    if (Array.isArray(item)) return item.map((part) => texts(part, kind, depth + 1));
    if (!isPlain(item)) return item;
    return Object.fromEntries(
      Object.entries(item).map(([key, part]) => [text(key), texts(part, fieldKind(key, part), depth + 1)]),
    );
  };
  return texts(value, undefined, 0) as T;
}

function isPlain(item: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(item);
  return prototype === Object.prototype || prototype === null;
}

function fieldKind(key: string, part: unknown): string | undefined {
  const named = kindOf(key);
  if (!named) return undefined;
  if (named.sure) return named.kind;
  return typeof part === "string" && looksSecret(part) ? named.kind : undefined;
}
