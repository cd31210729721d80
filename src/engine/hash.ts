import { createHash } from "node:crypto";

/** SHA-256 of a text, letters, digits, `-` and `_`. */
export function hashText(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}
