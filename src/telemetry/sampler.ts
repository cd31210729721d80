import type { Sampler, SamplingDecision, SamplingResult } from "@opentelemetry/sdk-trace";
import { decidedKey } from "./tracing.ts";

type Sdk = typeof import("@opentelemetry/sdk-trace");

/**
 * The sampler of the standard variables `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`, which is asked once per
 * run: spans of a run that was found sampled when it was created are recorded in whatever process. Only `always_off`
 * wins over that, since it is how a process is told to be quiet.
 */
export function createSampler(sdk: Sdk, env: Record<string, string | undefined>): Sampler {
  const name = env.OTEL_TRACES_SAMPLER ?? "parentbased_always_on";
  const given = Number(env.OTEL_TRACES_SAMPLER_ARG ?? 1);
  const ratio = given >= 0 && given <= 1 ? given : 1;
  if (name === "always_off") return new sdk.AlwaysOffSampler();
  const root = name.endsWith("traceidratio")
    ? new sdk.TraceIdRatioBasedSampler(ratio)
    : name.endsWith("always_off")
      ? new sdk.AlwaysOffSampler()
      : new sdk.AlwaysOnSampler();
  // Unknown names get the specification's default, which is parent based.
  const plain = name === "always_on" || name === "traceidratio";
  return trustDecisions(plain ? root : new sdk.ParentBasedSampler({ root }), sdk.SamplingDecision.RECORD_AND_SAMPLED);
}

function trustDecisions(inner: Sampler, sampled: SamplingDecision): Sampler {
  return {
    shouldSample: (context, ...span): SamplingResult =>
      context.getValue(decidedKey) === true ? { decision: sampled } : inner.shouldSample(context, ...span),
    toString: () => `DroverRun{${inner.toString()}}`,
  };
}
