// Imported before anything else by worker processes: this machine's clock as `clock` of the options says. It shifts what
// JavaScript tells as the time of day; timers and `performance.now()` go on, as they do when a clock is set.
import { readE2eOptions } from "./e2e-options.ts";

const { clock } = readE2eOptions();
if (clock) {
  const { skewMs, jumpMs, jumpAfterMs } = clock;
  const RealDate = Date;
  const startedAt = performance.now();
  const offset = (): number => skewMs + (performance.now() - startedAt >= jumpAfterMs ? jumpMs : 0);
  const now = (): number => RealDate.now() + offset();
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args: [], newTarget) =>
      Reflect.construct(target, args.length > 0 ? args : [now()], newTarget) as Date,
    get: (target, name) => (name === "now" ? now : Reflect.get(target, name)),
  });
}
