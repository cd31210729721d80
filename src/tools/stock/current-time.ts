import { z } from "zod";
import { PermanentError } from "../../core/errors.ts";
import { defineTool, type Tool } from "../define-tool.ts";

const description = `The current date and time in a time zone: ISO 8601 with offset, weekday and epoch milliseconds.
zone: IANA name of the time zone, default UTC. Format: Area/City, e.g. Europe/Oslo.
Example: {"zone":"America/New_York"}`;

/**
 * Tells a model what time it is.
 *
 * @param options.now epoch ms of now, for tests; default `Date.now`.
 */
export function currentTime(options: { now?: () => number } = {}): Tool {
  const now = options.now ?? Date.now;
  return defineTool({
    name: "current_time",
    description,
    parameters: z.object({
      zone: z.string().min(1).max(64).default("UTC").describe("IANA time zone, e.g. Europe/Oslo"),
    }),
    effect: "read",
    timeoutMs: 5_000,
    execute: ({ zone }) => timeIn(zone, now()),
  });
}

type ZonedTime = { time: string; weekday: string; zone: string; epochMs: number };

function timeIn(zone: string, at: number): ZonedTime {
  const parts = Object.fromEntries(
    formatterFor(zone)
      .formatToParts(at)
      .map(({ type, value }) => [type, value]),
  );
  const { year, month, day, hour, minute, second, weekday, timeZoneName } = parts;
  // Some builds say "GMT" for no offset, others "GMT+00:00".
  const offset = (timeZoneName ?? "").replace("GMT", "") || "+00:00";
  const time = `${year?.padStart(4, "0")}-${month}-${day}T${hour}:${minute}:${second}${offset}`;
  return { time, weekday: weekday ?? "", zone, epochMs: at };
}

function formatterFor(zone: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat("en-US", {
      timeZone: zone,
      calendar: "iso8601",
      numberingSystem: "latn",
      hourCycle: "h23",
      weekday: "long",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      timeZoneName: "longOffset",
    });
  } catch {
    throw new PermanentError(`there is no time zone ${JSON.stringify(zone)}; give an IANA name such as Europe/Oslo`);
  }
}
