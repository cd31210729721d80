import { DroverError } from "../../core/errors.ts";
import { createDrover } from "../../drover.ts";
import { createLogger } from "../../telemetry/logger.ts";
import type { Context } from "../context.ts";
import { listenForStop } from "../signals.ts";
import { createDemoAgent } from "./agent.ts";
import { createStage } from "./stage.ts";

const concurrency = 4;

/** One of the demo's worker processes: an ordinary worker, but that it tells the demo what it does. */
export async function runDemoWorker(context: Context, dir: string): Promise<number> {
  const { redisUrl, prefix } = context.config();
  if (redisUrl === undefined || !process.send) {
    throw new DroverError("invalid", "demo-worker is started by `drover demo`, not by hand.");
  }
  // The demo is gone: nobody will give the word any more.
  process.once("disconnect", () => process.exit(1));
  const stop = listenForStop();
  const stage = createStage();
  const logger = createLogger({ level: "error", destination: process.stderr });
  const agents = [createDemoAgent(context.config(), { dir }, stage)];
  const drover = createDrover({ redis: redisUrl, prefix, agents, logger });
  try {
    await drover.work({ concurrency, graceMs: 1000 });
    stage.report({ type: "ready" });
    await stop.requested;
  } finally {
    await drover.close();
  }
  process.disconnect();
  return 0;
}
