import { createHash } from "node:crypto";
import { canonical } from "../core/canonical.ts";
import type { Tool } from "./define-tool.ts";
import { shorten } from "./messages.ts";

/** Arguments on their way into a tool: JSON as its schema accepted it, and what the tool itself gets. */
export type Arguments = { accepted: Record<string, unknown>; args: unknown };

type Described = { name: string; describe?: Tool["describe"] };

const maxDescription = 4_000;
const maxArguments = 2_000;

/**
 * Names what exactly would be run: the tool and its arguments as its schema accepted them, whatever the order of their
 * keys. SHA-256, the first 22 characters in base64url.
 */
export function hashArguments(tool: string, accepted: Record<string, unknown>): string {
  const text = canonical([tool, accepted]);
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}

/** What a call would do, for whoever decides on it. */
export function describeCall(tool: Tool, given: Arguments): string {
  return ownWords(tool, given) ?? `${tool.name} with ${argumentsText(given)}`;
}

/** What a dry run tells people of a call, and the model instead of making it. */
export function describeDryRun(tool: Described, given: Arguments): { described: string; content: string } {
  const own = ownWords(tool, given);
  // The model, and whoever reads the transcript after it, must not take the words for a deed.
  if (own !== undefined) return { described: own, content: `Dry run, not executed: ${own}` };
  const described = `Dry run: ${tool.name} was not executed. It would have been called with ${argumentsText(given)}.`;
  return { described, content: described };
}

function argumentsText({ accepted }: Arguments): string {
  return shorten(JSON.stringify(accepted), maxArguments);
}

/** The tool's own description; undefined if it has none, or fails to make one. Never throws. */
function ownWords({ describe }: Described, { args }: Arguments): string | undefined {
  try {
    const words: unknown = describe?.(args);
    if (typeof words === "string") return words.trim() === "" ? undefined : shorten(words, maxDescription);
    // A promise is no text, and what becomes of it must not end the process.
    if (words instanceof Promise) words.catch(() => {});
    return undefined;
  } catch {
    return undefined;
  }
}
