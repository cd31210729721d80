export type StopRequest = {
  /** Resolves with the first SIGINT or SIGTERM. */
  readonly requested: Promise<NodeJS.Signals>;
  /** Aborts with it. */
  readonly signal: AbortSignal;
  /** Stops listening. */
  release(): void;
};

const numbers: Partial<Record<NodeJS.Signals, number>> = { SIGINT: 2, SIGTERM: 15 };

/** npm passes on the Ctrl-C that the terminal sent already; what comes so soon after the first is no second wish. */
const sameSignalMs = 300;

/** Turns the first SIGINT or SIGTERM into a request to stop. The next one ends the process at once. */
export function listenForStop(): StopRequest {
  const controller = new AbortController();
  let resolveRequested: (signal: NodeJS.Signals) => void;
  const requested = new Promise<NodeJS.Signals>((resolve) => {
    resolveRequested = resolve;
  });
  let firstAt = 0;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (controller.signal.aborted) {
      if (performance.now() - firstAt > sameSignalMs) process.exit(128 + (numbers[signal] ?? 0));
      return;
    }
    firstAt = performance.now();
    controller.abort();
    resolveRequested(signal);
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return {
    requested,
    signal: controller.signal,
    release() {
      process.off("SIGINT", onSignal);
      process.off("SIGTERM", onSignal);
    },
  };
}
