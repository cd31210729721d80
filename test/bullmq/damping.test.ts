// Catches: a log line, and memory, for each of thousands of steps that met the same trouble.
import { expect, test } from "vitest";
import { createTroubleLog } from "../../src/bullmq/damping.ts";
import type { Logger } from "../../src/ports.ts";

test("the same trouble of many steps is one line", () => {
  const lines: string[] = [];
  const none = (): void => {};
  const logger: Logger = { debug: none, info: none, error: none, warn: (_fields, message) => lines.push(message) };
  const trouble = createTroubleLog(logger);
  for (let index = 0; index < 1_000; index += 1) {
    trouble(new Error(`Missing lock for job ${index}-0-order-${index}. moveToFinished`), {}, "a lock was lost");
  }
  expect(lines.length).toBe(1);
  // BullMQ tries again when it could not end a job, and by then its lock may be missing for another reason.
  for (const reason of ["Lock mismatch for", "Missing key for", "Missing lock for"]) {
    trouble(new Error(`${reason} job 1-0-order-1. Cmd moveToFinished`), {}, "a lock was lost");
  }
  expect(lines.length).toBe(1);
  trouble(new Error("READONLY You can't write"), {}, "a lock was lost");
  expect(lines.length).toBe(2);
});
