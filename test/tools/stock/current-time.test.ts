import { expect, test } from "vitest";
import { currentTime } from "../../../src/tools/stock/current-time.ts";
import { callTool, textFrom } from "../request.ts";

const at = Date.UTC(2026, 10, 30, 23, 5, 9);
const tool = currentTime({ now: () => at });

test.each([
  [{}, "2026-11-30T23:05:09+00:00", "Monday", "UTC"],
  [{ zone: "Europe/Oslo" }, "2026-12-01T00:05:09+01:00", "Tuesday", "Europe/Oslo"],
  [{ zone: "America/New_York" }, "2026-11-30T18:05:09-05:00", "Monday", "America/New_York"],
  [{ zone: "Asia/Kathmandu" }, "2026-12-01T04:50:09+05:45", "Tuesday", "Asia/Kathmandu"],
])("%j", async (args, time, weekday, zone) => {
  expect(JSON.parse(await textFrom(tool, args))).toEqual({ time, weekday, zone, epochMs: at });
  expect(Date.parse(time)).toBe(at);
});

test.each(["Mars/Olympus", "Oslo; rm -rf", "../etc/passwd"])("%s is no zone", async (zone) => {
  const message = expect.stringContaining(`there is no time zone "${zone}"`);
  expect(await callTool(tool, { zone })).toMatchObject({ type: "failed", message });
});

test("by default it is now", async () => {
  const before = Date.now();
  const { epochMs } = JSON.parse(await textFrom(currentTime(), {})) as { epochMs: number };
  expect(epochMs).toBeGreaterThanOrEqual(before);
  expect(epochMs).toBeLessThanOrEqual(Date.now());
});
