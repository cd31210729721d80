import { isOutage } from "../../core/errors.ts";
import { pause } from "../../engine/pause.ts";
import type { HttpDeps } from "../types.ts";
import { lastResponse } from "./progress.ts";
import { type Kept, toSubject } from "./record.ts";
import { projections } from "./responses-log.ts";
import type { WireResponse } from "./wire.ts";

const lookAgainMs = 500;

/** The Response once it has ended; as it is by then if the signal aborts. Outages are waited out. */
export async function waitForEnd(deps: HttpDeps, kept: Kept, signal: AbortSignal): Promise<WireResponse> {
  let response: WireResponse | undefined;
  for (;;) {
    try {
      for await (const { events } of projections(deps, toSubject(kept), signal)) {
        response = lastResponse(events) ?? response;
      }
      if (response) return response;
    } catch (error) {
      if (!isOutage(error) || signal.aborted) throw error;
    }
    signal.throwIfAborted();
    await pause(lookAgainMs, signal);
  }
}
