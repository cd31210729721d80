export type StopRequest = {
  /** Resolves with the first SIGINT or SIGTERM. */
  readonly requested: Promise<NodeJS.Signals>;
  /** Aborts with it. */
  readonly signal: AbortSignal;
  /** What a program that was stopped so ends with: 130 or 143. */
  exitCode(): number;
  /** Stops listening. */
  release(): void;
};

const numbers: Partial<Record<NodeJS.Signals, number>> = { SIGINT: 2, SIGTERM: 15 };

function toExitCode(signal: NodeJS.Signals): number {
  return 128 + (numbers[signal] ?? 0);
}

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
  let exitCode = 0;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (controller.signal.aborted) {
      if (performance.now() - firstAt > sameSignalMs) process.exit(toExitCode(signal));
      return;
    }
    firstAt = performance.now();
    exitCode = toExitCode(signal);
    controller.abort();
    resolveRequested(signal);
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return {
    requested,
    signal: controller.signal,
    exitCode: () => exitCode,
    release() {
      process.off("SIGINT", onSignal);
      process.off("SIGTERM", onSignal);
    },
  };
}
