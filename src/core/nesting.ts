/**
 * Lists and objects may lie this deep in each other in whatever is taken from outside. Far more than anything needs;
 * what reads values level by level (a schema, `JSON.stringify`) runs out of stack at some thousands.
 */
export const deepestNesting = 200;

/** What to say of a value that is nested deeper; undefined if it is not. Goes through a value of any depth. */
export function problemOfNesting(value: unknown, max: number = deepestNesting): string | undefined {
  let level: unknown[] = [value];
  for (let depth = 0; depth <= max; depth += 1) {
    level = level.flatMap((one) => (typeof one === "object" && one !== null ? Object.values(one) : []));
    if (level.length === 0) return undefined;
  }
  return `expected lists and objects at most ${max} deep in each other, received deeper ones`;
}

const quote = 34;
const backslash = 92;
const opening = new Set([91, 123]);
const closing = new Set([93, 125]);

/** Whether no list or object of a JSON text lies deeper. Brackets within texts do not count. */
export function isTextWithin(json: string, max: number = deepestNesting): boolean {
  let depth = 0;
  let inText = false;
  for (let at = 0; at < json.length; at += 1) {
    const code = json.charCodeAt(at);
    if (inText && code === backslash) at += 1;
    else if (code === quote) inText = !inText;
    else if (!inText && opening.has(code)) depth += 1;
    else if (!inText && closing.has(code)) depth -= 1;
    if (depth > max) return false;
  }
  return true;
}
