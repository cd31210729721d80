import { setTimeout as sleep } from "node:timers/promises";
import { type Job, type JobJson, type RedisConnection, RedisQueueBackend, Worker } from "bullmq";

/** BullMQ's own wait. */
const refusedMs = 5_000;

/** BullMQ would take a job whose data is no JSON (`NaN`, say) again and again: as a text, every schema refuses it. */
export class TolerantWorker extends Worker {
  protected override createJob(job: JobJson, jobId: string): Job {
    try {
      return super.createJob(job, jobId);
    } catch {
      return super.createJob({ ...job, data: JSON.stringify(job.data) }, jobId);
    }
  }

  /** As BullMQ does it, but for its wait after a refusal: that would keep the process up for seconds after a stop. */
  protected override async checkConnectionError<T>(
    work: () => Promise<T>,
    waitMs: number = refusedMs,
  ): Promise<T | undefined> {
    let hasFailed = false;
    const noted = (): Promise<T> =>
      work().catch((error: unknown) => {
        hasFailed = true;
        throw error;
      });
    const result = await super.checkConnectionError(noted, 0);
    if (hasFailed && !this.closing) await sleep(waitMs, undefined, { ref: false });
    return result;
  }
}

/**
 * The same of what is kept beside a job's data: one field that cannot be read, and the job is taken, given up and taken again for
 * ever, whatever step it holds. Such a field is left out, here and in what Redis keeps.
 *
 * Locks are renewed over a connection of their own: behind a large commit on its way the renewals of all steps would come
 * too late, and those that a server cuts off for their size would take them along.
 */
export class TolerantBackend extends RedisQueueBackend {
  readonly #locks: RedisConnection;

  constructor(locks: RedisConnection, ...own: ConstructorParameters<typeof RedisQueueBackend>) {
    super(...own);
    this.#locks = locks;
  }

  override execCommand(...command: Parameters<RedisQueueBackend["execCommand"]>): unknown {
    const [client, name, args] = command;
    if (name === "extendLocks") return this.#locks.client.then((own) => super.execCommand(own, name, args));
    const reply: unknown = super.execCommand(...command);
    if (!takes.has(name) || !("hdel" in client)) return reply;
    return (reply as Promise<unknown>).then((taken) => {
      const [fields, jobId] = Array.isArray(taken) ? taken : [];
      const left = Array.isArray(fields) ? leaveOut(fields) : [];
      // On its way before the command that ends the job. Whether it arrives is of no matter: the job may be taken again.
      if (left.length > 0) void Promise.resolve(client.hdel(this.toKey(jobId), ...left)).catch(() => undefined);
      return taken;
    });
  }
}

/** Scripts that give a worker its next job: its fields and values in one list, and its id. */
const takes: ReadonlySet<string> = new Set(["moveToActive", "moveToFinished"]);

/** Takes out of the list what cannot be read, and returns its names. */
function leaveOut(fields: string[]): string[] {
  const left: string[] = [];
  for (let at = fields.length - 2; at >= 0; at -= 2) {
    const name = fields[at] ?? "";
    if (canBeRead(name, fields[at + 1], fields)) continue;
    left.push(name);
    fields.splice(at, 2);
  }
  return left;
}

function canBeRead(name: string, value: string | undefined, fields: readonly string[]): boolean {
  switch (name) {
    case "opts":
      return typeof parsed(value) === "object";
    case "progress":
    case "parent":
      return parsed(value) !== undefined;
    case "rjk": // Part of a schedule, of which its options tell.
      return typeof Object(parsed(valueOf("opts", fields))).repeat === "object";
    case "defa": // To fail unseen. A flow may say so; a worker of another make, that counted stalls, may not: the step says that.
      return /^child .* failed$/s.test(value ?? "");
    default:
      return true;
  }
}

/** Of names and values in turns; a value may look like a name. */
function valueOf(name: string, fields: readonly string[]): string | undefined {
  const at = fields.findIndex((field, index) => index % 2 === 0 && field === name);
  return at === -1 ? undefined : fields[at + 1];
}

/** Undefined for null, which none of these can be, and for what is no JSON. */
function parsed(json: string | undefined): unknown {
  try {
    return JSON.parse(json ?? "") ?? undefined;
  } catch {
    return undefined;
  }
}
