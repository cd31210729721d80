import type { DurabilityTarget } from "../core/durability.ts";
import { DroverError } from "../core/errors.ts";
import type { Logger } from "../ports.ts";
import { type CheckOptions, checkRedis, type Finding } from "./check.ts";
import type { RedisConnection } from "./connection.ts";

export type WatchSettingsOptions = {
  connection: RedisConnection;
  logger: Logger;
  /** What the caller knows of already, say from the start. */
  known: readonly Finding[];
  prefix: string;
  /** What acknowledgements wait for. */
  durability?: DurabilityTarget | undefined;
  /** Default 30,000 ms. */
  everyMs?: number | undefined;
};

const defaultEveryMs = 30_000;

/**
 * Looks at a server's settings again every `everyMs`, and when a connection came back: it may lead to another server.
 * What is newly wrong is logged once, and once when it is right again. Nothing is said of an outage, which others do.
 *
 * @returns how to stop
 */
export function watchSettings(options: WatchSettingsOptions): () => void {
  const { connection, logger, prefix, durability, everyMs = defaultEveryMs } = options;
  let known = new Map(options.known.map((finding) => [finding.setting, finding]));
  let looking = false;

  async function look(): Promise<void> {
    const found = new Map(
      (await checkRedis(connection, { prefix, durability })).map((finding) => [finding.setting, finding]),
    );
    for (const [setting, { severity, message }] of found) {
      if (isSame(known.get(setting)?.message, message)) continue;
      logger[severity === "error" ? "error" : "warn"]({ setting }, message);
    }
    for (const setting of known.keys()) {
      if (!found.has(setting)) logger.warn({ setting }, `Redis's ${setting} is right again.`);
    }
    known = found;
  }

  const lookQuietly = (): void => {
    if (looking) return;
    looking = true;
    look()
      .catch(() => undefined)
      .finally(() => {
        looking = false;
      });
  };
  const timer = setInterval(lookQuietly, everyMs);
  timer.unref();
  connection.client.on("ready", lookQuietly);
  return () => {
    clearInterval(timer);
    connection.client.off("ready", lookQuietly);
  };
}

/** Numbers aside, such as by how much a clock is off: those differ each time. */
function isSame(before: string | undefined, now: string): boolean {
  return before?.replaceAll(/\d+/g, "") === now.replaceAll(/\d+/g, "");
}

/** For so long what was found of the settings holds: who asks often costs no more than one. */
const keptMs = 5_000;

/**
 * For a readiness check: whether the server answers, and can be trusted with runs as it is set now.
 *
 * @returns a check that throws DroverError "queue_unavailable", or "unsupported" saying which setting is wrong.
 */
export function createReadiness(connection: RedisConnection, options: CheckOptions): () => Promise<void> {
  let kept: { at: number; findings: Promise<Finding[]> } | undefined;
  return async () => {
    await connection.use((client) => client.ping());
    const at = performance.now();
    if (!kept || at - kept.at > keptMs) kept = { at, findings: checkRedis(connection, options) };
    const own = kept;
    const findings = await own.findings.catch((error: unknown) => {
      if (kept === own) kept = undefined;
      throw error;
    });
    const errors = findings.filter(({ severity }) => severity === "error");
    if (errors.length > 0) throw new DroverError("unsupported", errors.map(({ message }) => message).join(" "));
  };
}
