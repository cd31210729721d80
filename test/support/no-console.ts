// Fails a test during which something was printed: a library that writes to the console of its host is a bug, and
// stray output hides the one line that matters. A test that expects output replaces the method with `vi.spyOn`.
import { afterEach, beforeEach } from "vitest";

const methods = ["debug", "error", "info", "log", "warn"] as const;
const printed: string[] = [];

for (const method of methods) {
  console[method] = (...parts: unknown[]): void => {
    printed.push(`console.${method}: ${parts.map(String).join(" ")}`);
  };
}

beforeEach(() => {
  printed.length = 0;
});

afterEach(() => {
  const lines = printed.splice(0);
  if (lines.length > 0) throw new Error(`unexpected console output:\n${lines.join("\n")}`);
});
